-- Webhooks that a service writes in its own transactions, for the relay to hand over. PostgreSQL 13 or newer.

CREATE TABLE webhook_outbox (
  -- The order of hand-over within a payment. No index of its own: the planner would search all of it for what waits.
  seq bigint GENERATED ALWAYS AS IDENTITY,
  merchant_id text NOT NULL,
  webhook_id text NOT NULL,
  type text NOT NULL,
  payment_id text,
  -- Merchants receive these very bytes. json would do, jsonb would not: it writes them anew.
  body text NOT NULL,
  written_at timestamptz NOT NULL DEFAULT now(),
  -- waiting: to be handed over; handed-over: Temporal has it; parked: refused for good, for a person to look at.
  state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'handed-over', 'parked')),
  settled_at timestamptz,
  -- Why it is parked, or why the last try failed.
  reason text,
  tries integer NOT NULL DEFAULT 0,
  retry_at timestamptz NOT NULL DEFAULT '-infinity',
  PRIMARY KEY (merchant_id, webhook_id)
) WITH (
  -- Every row is written, updated once and deleted: vacuum by number, not by share of the table.
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0,
  autovacuum_analyze_threshold = 1000
);

CREATE INDEX webhook_outbox_open ON webhook_outbox (state, seq) WHERE state <> 'handed-over';
CREATE INDEX webhook_outbox_order ON webhook_outbox (merchant_id, payment_id, seq) WHERE state = 'waiting';
CREATE INDEX webhook_outbox_old ON webhook_outbox (settled_at) WHERE state = 'handed-over';

-- Relays hear of new rows at commit, once for each transaction.
CREATE FUNCTION webhook_outbox_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NOTIFY webhook_outbox;
  RETURN NULL;
END
$$;
CREATE TRIGGER webhook_outbox_written AFTER INSERT ON webhook_outbox
  FOR EACH STATEMENT EXECUTE FUNCTION webhook_outbox_written();

-- One row, to be watched and alerted on.
CREATE VIEW webhook_outbox_lag AS
SELECT
  count(*) FILTER (WHERE state = 'waiting') AS waiting,
  coalesce(extract(epoch FROM now() - min(written_at) FILTER (WHERE state = 'waiting')), 0)
    AS oldest_waiting_seconds,
  count(*) FILTER (WHERE state = 'waiting' AND tries > 0) AS retrying,
  count(*) FILTER (WHERE state = 'parked') AS parked
FROM webhook_outbox
WHERE state <> 'handed-over';
