<?php
/**
 * Receives webhooks. Needs nothing but PHP 8.1 or newer:
 *
 *     WEBHOOK_SECRETS_FILE=secrets.txt php -S 127.0.0.1:8080 receiver.php
 *
 * The file has one signing secret a line: two while one is being replaced.
 */
declare(strict_types=1);

const MAX_BODY_BYTES = 1024 * 1024;

final class Refused extends Exception
{
}

/** Returns the webhook's id. Every family of headers that is there must be right. */
function verify(array $headers, string $body, array $secrets, int $tolerance): string
{
    $headers = array_change_key_case($headers);
    $get = fn (string $name): string => $headers[$name] ?? '';
    $claims = []; // id, timestamp, what is signed before the body, signatures, key of a secret, digest in text
    $own = preg_split('/[\s,]+/', $get('x-webhook-signature') . ' ' . $get('x-webhook-signature-next'), -1, PREG_SPLIT_NO_EMPTY);
    if ($own !== []) {
        $timestamp = $get('x-webhook-timestamp');
        $claims[] = [$get('x-webhook-id'), $timestamp, "$timestamp.", $own, fn ($secret) => $secret, bin2hex(...)];
    }
    if ($get('webhook-signature') !== '') {
        [$id, $timestamp] = [$get('webhook-id'), $get('webhook-timestamp')];
        preg_match_all('~v1,([A-Za-z0-9+/]{43}=)~', $get('webhook-signature'), $found);
        $claims[] = [$id, $timestamp, "$id.$timestamp.", $found[1], standardKey(...), base64_encode(...)];
    }
    if ($claims === []) {
        throw new Refused('missing-signature', 401);
    }
    foreach ($claims as [$id, $timestamp, $prefix, $signatures, $keyOf, $textOf]) {
        if (!preg_match('/^[!-~]{1,256}$/D', $id) || $id !== $claims[0][0]) {
            throw new Refused('bad-id', 400);
        }
        if (!preg_match('/^[0-9]{1,12}$/D', $timestamp)) {
            throw new Refused('bad-timestamp', 400);
        }
        $genuine = false;
        foreach ($secrets as $secret) {
            $expected = $textOf(hash_hmac('sha256', $prefix . $body, $keyOf($secret), true));
            foreach ($signatures as $signature) {
                $genuine = hash_equals($expected, $signature) || $genuine;
            }
        }
        if (!$genuine) {
            throw new Refused('wrong-signature', 401);
        }
        if (abs(time() - (int) $timestamp) > $tolerance) {
            throw new Refused('stale-timestamp', 401);
        }
    }
    return $claims[0][0];
}

function standardKey(string $secret): string
{
    return str_starts_with($secret, 'whsec_') ? base64_decode(substr($secret, 6)) : $secret;
}

/** Runs once for each id. Throw if it should come again; return for events that you do not use. */
function handle(mixed $event): void
{
    $type = is_array($event) ? $event['event'] ?? $event['type'] ?? null : null;
    if ($type !== 'payment.status_changed') {
        return;
    }
    if (!is_string($event['payment_id'] ?? null)) {
        throw new RuntimeException('a payment event without payment_id');
    }
    error_log("order of {$event['payment_id']} is now {$event['status']}");
}

/**
 * A file for each id, locked while it is handled: a process that dies leaves no mark. With a database, insert the id in
 * the transaction that handle() writes in, with a unique key: INSERT … ON CONFLICT DO NOTHING.
 */
function handleOnce(string $id, mixed $event): string
{
    $folder = getenv('WEBHOOK_FOLDER') ?: 'handled-webhooks';
    is_dir($folder) || @mkdir($folder, 0700, true);
    $file = fopen($folder . '/' . hash('sha256', $id), 'c+');
    if ($file === false || !flock($file, LOCK_EX)) {
        throw new RuntimeException("$folder cannot be written to");
    }
    if (fread($file, 4) === 'done') {
        return 'duplicate';
    }
    handle($event);
    if (!ftruncate($file, 0) || !rewind($file) || fwrite($file, 'done') !== 4 || !fflush($file)) {
        throw new RuntimeException("$folder cannot be written to");
    }
    return 'handled';
}

function secretsInForce(): array
{
    $secrets = array_filter(preg_split('/\r?\n/', (string) file_get_contents((string) getenv('WEBHOOK_SECRETS_FILE'))));
    return $secrets ?: throw new RuntimeException('there is no secret in WEBHOOK_SECRETS_FILE');
}

function receive(): array
{
    // The raw bytes; $_POST and json_decode(...) would not be what was signed.
    $body = file_get_contents('php://input', length: MAX_BODY_BYTES + 1);
    if (strlen($body) > MAX_BODY_BYTES) {
        return [413, 'body-too-large'];
    }
    try {
        $secrets = secretsInForce();
        $id = verify(getallheaders(), $body, $secrets, (int) (getenv('WEBHOOK_TOLERANCE_SECONDS') ?: 300));
        try {
            $event = json_decode($body, true, flags: JSON_THROW_ON_ERROR | JSON_BIGINT_AS_STRING);
        } catch (JsonException) {
            return [400, 'not-json'];
        }
        return [200, handleOnce($id, $event)];
    } catch (Refused $refused) {
        return [$refused->getCode(), $refused->getMessage()];
    } catch (Throwable $error) { // It comes again.
        error_log('not handled: ' . $error->getMessage());
        return [500, 'failed'];
    }
}

if (realpath($_SERVER['SCRIPT_FILENAME']) === __FILE__ || PHP_SAPI === 'cli-server') {
    [$status, $outcome] = $_SERVER['REQUEST_METHOD'] === 'POST' ? receive() : [405, 'not-post'];
    error_log(($_SERVER['HTTP_X_WEBHOOK_ID'] ?? '-') . " $status $outcome");
    http_response_code($status);
    header('Content-Type: application/json');
    echo json_encode(['outcome' => $outcome]);
}
