// Receives webhooks. Needs nothing but Go's standard library:
//
//	PORT=8080 WEBHOOK_SECRETS_FILE=secrets.txt go run receiver.go
//
// The file has one signing secret a line: two while one is being replaced.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

const maxBodyBytes = 1 << 20

type refused struct {
	status int
	code   string
}

func (r refused) Error() string { return r.code }

// claim is what one family of headers says.
type claim struct {
	id, timestamp, prefix string
	signatures            [][]byte
	keyOf                 func(secret string) []byte
}

var (
	idPattern        = regexp.MustCompile(`^[!-~]{1,256}$`)
	timestampPattern = regexp.MustCompile(`^[0-9]{1,12}$`)
	standardPattern  = regexp.MustCompile(`v1,([A-Za-z0-9+/]{43}=)`)
)

// verify returns the webhook's id. Every family of headers that is there must be right.
func verify(headers http.Header, body []byte, secrets []string, tolerance time.Duration) (string, error) {
	var claims []claim
	own := headers.Get("X-Webhook-Signature") + " " + headers.Get("X-Webhook-Signature-Next")
	if strings.TrimSpace(own) != "" {
		c := claim{id: headers.Get("X-Webhook-Id"), timestamp: headers.Get("X-Webhook-Timestamp")}
		c.prefix = c.timestamp + "."
		c.keyOf = func(secret string) []byte { return []byte(secret) }
		for _, text := range strings.Fields(own) {
			if signature, err := hex.DecodeString(text); err == nil {
				c.signatures = append(c.signatures, signature)
			}
		}
		claims = append(claims, c)
	}
	if standard := headers.Get("Webhook-Signature"); standard != "" {
		c := claim{id: headers.Get("Webhook-Id"), timestamp: headers.Get("Webhook-Timestamp"), keyOf: standardKey}
		c.prefix = c.id + "." + c.timestamp + "."
		for _, match := range standardPattern.FindAllStringSubmatch(standard, -1) {
			if signature, err := base64.StdEncoding.DecodeString(match[1]); err == nil {
				c.signatures = append(c.signatures, signature)
			}
		}
		claims = append(claims, c)
	}
	if len(claims) == 0 {
		return "", refused{401, "missing-signature"}
	}
	for _, c := range claims {
		if !idPattern.MatchString(c.id) || c.id != claims[0].id {
			return "", refused{400, "bad-id"}
		}
		if !timestampPattern.MatchString(c.timestamp) {
			return "", refused{400, "bad-timestamp"}
		}
		if !c.isGenuine(body, secrets) {
			return "", refused{401, "wrong-signature"}
		}
		seconds, _ := strconv.ParseInt(c.timestamp, 10, 64)
		if age := time.Since(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
			return "", refused{401, "stale-timestamp"}
		}
	}
	return claims[0].id, nil
}

func (c claim) isGenuine(body []byte, secrets []string) bool {
	genuine := false
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, c.keyOf(secret))
		mac.Write([]byte(c.prefix))
		mac.Write(body)
		expected := mac.Sum(nil)
		for _, signature := range c.signatures {
			genuine = hmac.Equal(expected, signature) || genuine
		}
	}
	return genuine
}

func standardKey(secret string) []byte {
	if encoded, found := strings.CutPrefix(secret, "whsec_"); found {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			return key
		}
	}
	return []byte(secret)
}

// handle runs once for each id. Return an error if the webhook should come again, nil for events that you do not use.
func handle(body []byte) error {
	var named struct{ Event, Type any }
	// What is no JSON object is an event that is not used here.
	if json.Unmarshal(body, &named) != nil || (named.Event != "payment.status_changed" && named.Type != "payment.status_changed") {
		return nil
	}
	var event struct {
		PaymentID string `json:"payment_id"`
		Status    string `json:"status"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return err
	}
	if event.PaymentID == "" {
		return fmt.Errorf("a payment event without payment_id")
	}
	log.Printf("order of %s is now %s", event.PaymentID, event.Status)
	return nil
}

// handled remembers ids in memory. With a database, insert the id in the transaction that handle writes in, with a
// unique key: INSERT INTO handled_webhooks (id) VALUES ($1) ON CONFLICT DO NOTHING; no row inserted is a duplicate.
type handled struct {
	sync.Mutex
	states map[string]string
	order  []string
}

func (h *handled) once(id string, handle func() error) (string, error) {
	h.Lock()
	state := h.states[id]
	if state == "" {
		h.states[id] = "busy"
	}
	h.Unlock()
	if state != "" {
		return state, nil
	}
	failed := true
	defer func() { // Also if handle panics.
		h.Lock()
		defer h.Unlock()
		if failed {
			delete(h.states, id)
			return
		}
		h.states[id] = "duplicate"
		if h.order = append(h.order, id); len(h.order) > 100_000 {
			delete(h.states, h.order[0])
			h.order = h.order[1:]
		}
	}()
	if err := handle(); err != nil {
		return "failed", err
	}
	failed = false
	return "handled", nil
}

func main() {
	tolerance := 300
	if text := os.Getenv("WEBHOOK_TOLERANCE_SECONDS"); text != "" {
		tolerance, _ = strconv.Atoi(text)
	}
	ids := &handled{states: map[string]string{}}
	receive := func(request *http.Request) (int, string) {
		body, err := io.ReadAll(http.MaxBytesReader(nil, request.Body, maxBodyBytes))
		if err != nil {
			return 413, "body-too-large"
		}
		secrets, err := secretsInForce()
		if err != nil {
			log.Print(err)
			return 500, "no-secret"
		}
		id, err := verify(request.Header, body, secrets, time.Duration(tolerance)*time.Second)
		if err != nil {
			return err.(refused).status, err.Error()
		}
		outcome, err := ids.once(id, func() error { return handle(body) })
		switch {
		case err != nil: // It comes again.
			log.Printf("%s is not handled: %v", id, err)
			return 500, outcome
		case outcome == "busy": // Never 4xx: that would end the delivery.
			return 503, outcome
		}
		return 200, outcome
	}
	http.HandleFunc("POST /webhooks", func(response http.ResponseWriter, request *http.Request) {
		status, outcome := receive(request)
		log.Print(request.Header.Get("X-Webhook-Id"), " ", status, " ", outcome)
		response.Header().Set("Content-Type", "application/json")
		response.WriteHeader(status)
		fmt.Fprintf(response, `{"outcome":%q}`, outcome)
	})
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s/webhooks\n", listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}

func secretsInForce() ([]string, error) {
	text, err := os.ReadFile(os.Getenv("WEBHOOK_SECRETS_FILE"))
	if err != nil {
		return nil, err
	}
	var secrets []string
	for _, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSuffix(line, "\r"); line != "" {
			secrets = append(secrets, line)
		}
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("the file of secrets is empty")
	}
	return secrets, nil
}
