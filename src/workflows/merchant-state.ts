import type { Endpoint, GateView } from '../policy/gate.ts';
import {
  beginRelease,
  emptyRoom,
  endRelease,
  enter,
  leave,
  type WaitingRoom,
} from '../policy/waiting-room.ts';
import type { Report } from './messages.ts';

/** All that a merchant's entity knows; plain JSON, carried whole over continue-as-new. */
export interface MerchantSnapshot {
  readonly version: number;
  readonly epoch: number;
  readonly endpoint?: Endpoint;
  readonly room: WaitingRoom;
}

/** The rules of a merchant's entity: what its messages change and what the gate is told. */
export class MerchantState {
  /** Grows with everything that the gate must know. */
  version: number;
  private epoch: number;
  private endpoint: Endpoint | undefined;
  private room: WaitingRoom;

  constructor(snapshot: MerchantSnapshot = { version: 0, epoch: 0, room: emptyRoom }) {
    this.version = snapshot.version;
    this.epoch = snapshot.epoch;
    this.endpoint = snapshot.endpoint;
    this.room = snapshot.room;
  }

  get held(): number {
    return this.room.length;
  }

  /** R50: a different address starts a new epoch; a change of secrets alone does not. */
  setEndpoint(endpoint: Endpoint): void {
    if (endpoint.url !== this.endpoint?.url) this.epoch += 1;
    this.endpoint = endpoint;
    this.version += 1;
  }

  removeEndpoint(): void {
    if (this.endpoint === undefined) return;
    this.endpoint = undefined;
    this.epoch += 1;
    this.version += 1;
  }

  report({ holds, left }: Report): void {
    this.changingDrain(() => {
      for (const hold of holds) this.room = enter(this.room, hold);
      for (const webhookId of left) this.room = leave(this.room, webhookId);
    });
  }

  /** R46: whether held deliveries may be released. */
  canDrain(): boolean {
    return this.endpoint !== undefined && this.room.length > 0;
  }

  beginRelease(size: number): WaitingRoom {
    const { room, page } = beginRelease(this.room, size);
    this.room = room;
    return page;
  }

  endRelease(page: WaitingRoom, reached: number): void {
    this.changingDrain(() => {
      this.room = endRelease(this.room, page, reached);
    });
  }

  /** What the gate needs; published on every change of its version. */
  view(): GateView {
    return {
      version: this.version,
      epoch: this.epoch,
      ...(this.endpoint === undefined ? {} : { endpoint: this.endpoint }),
      draining: this.canDrain(),
    };
  }

  snapshot(): MerchantSnapshot {
    return {
      version: this.version,
      epoch: this.epoch,
      ...(this.endpoint === undefined ? {} : { endpoint: this.endpoint }),
      room: this.room,
    };
  }

  private changingDrain(change: () => void): void {
    const before = this.canDrain();
    change();
    if (this.canDrain() !== before) this.version += 1;
  }
}
