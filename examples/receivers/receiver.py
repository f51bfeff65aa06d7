"""Receives webhooks. Needs nothing but Python 3.9 or newer:

    PORT=8080 WEBHOOK_SECRETS_FILE=secrets.txt python3 receiver.py

The file has one signing secret a line: two while one is being replaced.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import sqlite3
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_SECONDS = int(os.environ.get("WEBHOOK_TOLERANCE_SECONDS", "300"))
MAX_BODY_BYTES = 1024 * 1024


class Refused(Exception):
    def __init__(self, status: int, code: str):
        super().__init__(code)
        self.status = status


def verify(headers, body: bytes, secrets: list[str]) -> str:
    """Returns the webhook's id. Every family of headers that is there must be right; headers.get() ignores case."""
    claims = []  # id, timestamp, what is signed before the body, signatures, key of a secret, digest in text
    own = [headers.get("x-webhook-signature", ""), headers.get("x-webhook-signature-next", "")]
    if any(own):
        webhook_id, timestamp = headers.get("x-webhook-id", ""), headers.get("x-webhook-timestamp", "")
        claims.append((webhook_id, timestamp, f"{timestamp}.", own, str.encode, bytes.hex))
    standard = re.findall(r"v1,([A-Za-z0-9+/]{43}=)", headers.get("webhook-signature", ""))
    if headers.get("webhook-signature"):
        webhook_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        prefix = f"{webhook_id}.{timestamp}."
        claims.append((webhook_id, timestamp, prefix, standard, standard_key, to_base64))
    if not claims:
        raise Refused(401, "missing-signature")
    for webhook_id, timestamp, prefix, signatures, key_of, text_of in claims:
        if not re.fullmatch(r"[!-~]{1,256}", webhook_id) or webhook_id != claims[0][0]:
            raise Refused(400, "bad-id")
        if not re.fullmatch(r"[0-9]{1,12}", timestamp):
            raise Refused(400, "bad-timestamp")
        expected = [text_of(hmac.new(key_of(s), prefix.encode() + body, hashlib.sha256).digest()) for s in secrets]
        given = [each.encode() for each in signatures]
        if not any([hmac.compare_digest(e.encode(), g) for e in expected for g in given]):
            raise Refused(401, "wrong-signature")
        if abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
            raise Refused(401, "stale-timestamp")
    return claims[0][0]


def standard_key(secret: str) -> bytes:
    return base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()


def to_base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def handle(event, transaction: sqlite3.Connection) -> None:
    """Runs once for each id. Raise if it should come again; return for events that you do not use."""
    if not isinstance(event, dict) or event.get("event", event.get("type")) != "payment.status_changed":
        return
    transaction.execute(
        "INSERT INTO orders VALUES (?, ?) ON CONFLICT (payment_id) DO UPDATE SET status = excluded.status",
        [event["payment_id"], event["status"]],
    )


database = sqlite3.connect(os.environ.get("WEBHOOK_DATABASE", "shop.db"), check_same_thread=False)
database.execute("CREATE TABLE IF NOT EXISTS handled_webhooks (id TEXT PRIMARY KEY)")
database.execute("CREATE TABLE IF NOT EXISTS orders (payment_id TEXT PRIMARY KEY, status TEXT NOT NULL)")
one_at_a_time = threading.Lock()


def handle_once(webhook_id: str, event) -> str:
    """The id and what the handler writes are committed together, or not at all."""
    with one_at_a_time, database:
        insert = "INSERT INTO handled_webhooks VALUES (?) ON CONFLICT DO NOTHING"
        if database.execute(insert, [webhook_id]).rowcount == 0:
            return "duplicate"
        handle(event, database)
        return "handled"


def secrets_in_force() -> list[str]:
    with open(os.environ["WEBHOOK_SECRETS_FILE"], encoding="utf-8") as file:
        secrets = [line for line in file.read().splitlines() if line]
    if not secrets:
        raise ValueError("there is no secret in WEBHOOK_SECRETS_FILE")
    return secrets


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30  # Seconds that a connection may be silent.

    def do_POST(self) -> None:
        status, outcome = self.receive()
        answer = json.dumps({"outcome": outcome}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def receive(self) -> tuple[int, str]:
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            return 413, "body-too-large"
        body = self.rfile.read(int(length))
        try:
            webhook_id = verify(self.headers, body, secrets_in_force())
            return 200, handle_once(webhook_id, json.loads(body))
        except Refused as refused:
            return refused.status, str(refused)
        except Exception as error:  # It comes again.
            print(f"not handled: {error!r}", file=sys.stderr)
            return 500, "failed"

    def log_message(self, format: str, *args) -> None:
        print(self.headers.get("x-webhook-id"), format % args, file=sys.stderr)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_port}/webhooks", flush=True)
    server.serve_forever()
