package page

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/url"
	"slices"
	"sync"
)

// Sizes of secrets, in bytes.
const (
	keyBytes     = 32
	nonceBytes   = 16
	macBytes     = 16
	sessionBytes = 32
)

const (
	// maxUsed is how many tokens a page accepts in its life. All later ones are refused.
	maxUsed = 4096

	// maxSessions is how many there are. One more ends the session that was unused for longest.
	maxSessions = 64
)

// A Key makes tokens. Whoever has it can open sessions of the page.
type Key []byte

// NewKey makes a key of random bytes.
func NewKey() Key {
	k := make(Key, keyBytes)

	// Read never fails (crypto/rand).
	rand.Read(k)
	return k
}

// Token makes a token, which opens one session: 16 random bytes and the first 16 of their
// HMAC-SHA256 with the key, in base64 for URLs. Nobody has to know of a token before it is used, so
// each process that has the key can make one.
func (k Key) Token() string {
	b := make([]byte, nonceBytes, nonceBytes+macBytes)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(append(b, k.mac(b)...))
}

// Link is an address of the page that opens one session. base is Server.URL.
func (k Key) Link(base string) string {
	return base + "?" + url.Values{tokenName: {k.Token()}}.Encode()
}

func (k Key) mac(nonce []byte) []byte {
	h := hmac.New(sha256.New, k)
	h.Write([]byte("paragon page token"))
	h.Write(nonce)
	return h.Sum(nil)[:macBytes]
}

// A guard knows which tokens were used, and which sessions there are.
type guard struct {
	key Key

	// mu guards the fields below.
	mu sync.Mutex

	// used has the nonces of links that have been used.
	used map[[nonceBytes]byte]struct{}

	// sessions has hashes of their secrets, by last use, the newest last.
	sessions [][sha256.Size]byte
}

func newGuard(key Key) *guard { return &guard{key: key, used: make(map[[nonceBytes]byte]struct{})} }

// open uses a token up, and begins a session; ok is false for a token that is wrong or was used.
func (g *guard) open(token string) (secret string, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != nonceBytes+macBytes || len(g.key) != keyBytes {
		return "", false
	}
	nonce := [nonceBytes]byte(b)
	if subtle.ConstantTimeCompare(b[nonceBytes:], g.key.mac(nonce[:])) != 1 {
		return "", false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, used := g.used[nonce]; used || len(g.used) >= maxUsed {
		return "", false
	}
	g.used[nonce] = struct{}{}
	random := make([]byte, sessionBytes)
	rand.Read(random)
	secret = base64.RawURLEncoding.EncodeToString(random)
	if len(g.sessions) >= maxSessions {
		g.sessions = slices.Delete(g.sessions, 0, 1)
	}
	g.sessions = append(g.sessions, sha256.Sum256([]byte(secret)))
	return secret, true
}

// has reports whether a secret is that of a session. Where it differs cannot be told from the time
// that this takes.
func (g *guard) has(secret string) bool {
	hash := sha256.Sum256([]byte(secret))
	g.mu.Lock()
	defer g.mu.Unlock()
	found := -1
	for i := range g.sessions {
		if subtle.ConstantTimeCompare(g.sessions[i][:], hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return false
	}
	g.sessions = append(slices.Delete(g.sessions, found, found+1), hash)
	return true
}
