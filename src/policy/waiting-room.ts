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

export const emptyRoom: WaitingRoom = [];

/** Registers a hold. Registering again keeps the first place and takes the newer call. */
export function enter(room: WaitingRoom, hold: Place): WaitingRoom {
  const known = room.find((place) => place.webhookId === hold.webhookId);
  if (known !== undefined && known.call >= hold.call) return room;
  const heldSince = known === undefined ? hold.heldSince : Math.min(known.heldSince, hold.heldSince);
  return insert(leave(room, hold.webhookId), { ...hold, heldSince });
}

/** Takes a delivery out, for it has ended. */
export function leave(room: WaitingRoom, webhookId: string): WaitingRoom {
  return room.filter((place) => place.webhookId !== webhookId);
}

/** Marks the `size` longest held as being released and returns them. */
export function beginRelease(room: WaitingRoom, size: number): { room: WaitingRoom; page: WaitingRoom } {
  const page = room.slice(0, size);
  const marked = page.map((place): Place => ({ ...place, releasing: true }));
  return { room: [...marked, ...room.slice(size)], page };
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

function insert(room: WaitingRoom, place: Place): WaitingRoom {
  const index = room.findIndex((other) => other.heldSince > place.heldSince);
  return index === -1 ? [...room, place] : room.toSpliced(index, 0, place);
}

function waitingAgain({ webhookId, call, fastFailures, heldSince }: Place): Place {
  return { webhookId, call, fastFailures, heldSince };
}
