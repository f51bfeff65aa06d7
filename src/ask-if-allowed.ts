import { isGrpcServiceError, type Client, type Connection } from '@temporalio/client';

const PERMISSION_DENIED = 7;
const UNIMPLEMENTED = 12;
const ASK_WITHIN_MS = 10_000;

/**
 * Asks Temporal what not every account may ask, as on Temporal Cloud.
 * @param withinMs - milliseconds; 10,000 by default.
 * @returns `undefined` where it is closed to us.
 * @throws whatever else keeps it from being answered.
 */
export async function askIfAllowed<T>(
  client: Client,
  ask: (connection: Connection) => Promise<T>,
  withinMs = ASK_WITHIN_MS,
): Promise<T | undefined> {
  const connection = client.connection as Connection;
  try {
    return await connection.withDeadline(Date.now() + withinMs, async () => await ask(connection));
  } catch (error) {
    const closed = isGrpcServiceError(error) && [PERMISSION_DENIED, UNIMPLEMENTED].includes(error.code);
    if (!closed) throw error;
    return undefined;
  }
}
