/** A held delivery's place in its merchant's waiting room. */
export interface Place {
  readonly webhookId: string;
  /** The number of the delivery's gate call that was refused; a release names it, so a stale one does nothing. */
  readonly call: number;
  /** R10: fast-type failures so far. */
  readonly fastFailures: number;
  /** When this hold began, Unix milliseconds: the order of the room. */
  readonly heldSince: number;
  /** Set while a wake-up for this place is under way. */
  readonly releasing?: true;
}

/** Deliveries that may not attempt now, longest held first. */
export type WaitingRoom = readonly Place[];

/** R51: what a room may hold; it must fit into the payloads that carry an entity from run to run. */
export interface RoomLimits {
  readonly places: number;
  readonly bytes: number;
}

/**
 * Registers holds. Registering again keeps the first place and takes the newer call. A full room keeps the
 * longest held (R51): whoever finds no place, or loses it, asks again by itself (R47). All holds of a report at once:
 * a room of thousands is walked once for them, not once for each.
 */
export function enter(room: WaitingRoom, holds: readonly Place[], limits: RoomLimits): WaitingRoom {
  const places = new Map(room.map((place) => [place.webhookId, place]));
  const isNew = ({ webhookId, call }: Place) => call > (places.get(webhookId)?.call ?? -1);
  let entered = 0;
  for (const hold of holds) {
    if (!isNew(hold)) continue;
    const heldSince = Math.min(places.get(hold.webhookId)?.heldSince ?? hold.heldSince, hold.heldSince);
    // Behind those that are held for just as long.
    places.delete(hold.webhookId);
    places.set(hold.webhookId, { ...hold, heldSince });
    entered += 1;
  }
  if (entered === 0) return room;
  return within(
    [...places.values()].toSorted((one, other) => one.heldSince - other.heldSince),
    limits,
  );
}

/** Takes deliveries out, for they have ended. */
export function leave(room: WaitingRoom, webhookIds: readonly string[]): WaitingRoom {
  if (webhookIds.length === 0) return room;
  const gone = new Set(webhookIds);
  return room.filter((place) => !gone.has(place.webhookId));
}

/** R44: who makes the trial: of those waiting the one with the fewest fast-type failures, among these the longest held. */
export function trialChoice(room: WaitingRoom): Place | undefined {
  return room
    .filter((place) => !place.releasing)
    .reduce<Place | undefined>(
      (best, place) => (best === undefined || place.fastFailures < best.fastFailures ? place : best),
      undefined,
    );
}

/** Marks the `size` longest held as being released and returns them. */
export function beginRelease(room: WaitingRoom, size: number): { room: WaitingRoom; page: WaitingRoom } {
  const page = room.slice(0, size);
  return { room: markReleasing(room, page), page };
}

/** Marks some places as being released. */
export function markReleasing(room: WaitingRoom, page: WaitingRoom): WaitingRoom {
  const marked = new Set(page.map(({ webhookId }) => webhookId));
  return room.map((place): Place => (marked.has(place.webhookId) ? { ...place, releasing: true } : place));
}

/**
 * Takes out what a page of wake-ups has reached; the rest of the page waits again in its place. One that
 * has registered anew since (a later call) stays.
 * @param reached - how many of the page, from its start, were woken or found to have ended.
 */
export function endRelease(room: WaitingRoom, page: WaitingRoom, reached: number): WaitingRoom {
  const gone = new Map(page.slice(0, reached).map((place) => [place.webhookId, place.call]));
  return room
    .filter((place) => gone.get(place.webhookId) !== place.call)
    .map((place) => (place.releasing ? waitingAgain(place) : place));
}

/** The longest held, as many as fit. */
function within(room: WaitingRoom, limits: RoomLimits): WaitingRoom {
  let bytes = 0;
  let fitting = 0;
  for (const place of room.slice(0, limits.places)) {
    bytes += place.webhookId.length + PLACE_BYTES;
    if (bytes > limits.bytes) break;
    fitting += 1;
  }
  return fitting === room.length ? room : room.slice(0, fitting);
}

/** A room as an entity carries it from run to run: without names, half as large. */
export type PackedRoom = readonly (readonly [
  webhookId: string,
  call: number,
  fastFailures: number,
  heldSince: number,
  releasing?: 1,
])[];

export function packed(room: WaitingRoom): PackedRoom {
  return room.map(({ webhookId, call, fastFailures, heldSince, releasing }) =>
    releasing ? [webhookId, call, fastFailures, heldSince, 1] : [webhookId, call, fastFailures, heldSince],
  );
}

export function unpacked(room: PackedRoom): WaitingRoom {
  return room.map(([webhookId, call, fastFailures, heldSince, releasing]) => ({
    webhookId,
    call,
    fastFailures,
    heldSince,
    ...(releasing === undefined ? {} : { releasing: true }),
  }));
}

/** What a packed place takes beside its id, in JSON: stamp, numbers, punctuation. */
const PLACE_BYTES = 30;

function waitingAgain({ webhookId, call, fastFailures, heldSince }: Place): Place {
  return { webhookId, call, fastFailures, heldSince };
}
