package page

import (
	"context"
	"encoding/json"
	"net/http"
)

// A Feed has what a page shows. The Server calls Poll and Whole from one goroutine at a time.
type Feed interface {
	// Page says what is shown.
	Page() Page
	// Poll learns what is new, and returns it for those who have seen all before. It is called once a second while someone watches; the Server bounds ctx. What
	// cannot be had now is a message, too: Poll does not fail.
	Poll(ctx context.Context) Message
	// Whole is all that is known as of the last Poll, for one who has seen nothing: one message, and behind it how things are if nothing can be had now.
	Whole() []Message
	// Routes are further things to GET, by path, below /api/. They are called concurrently with all else, for browsers with a session.
	Routes() map[string]http.HandlerFunc
}

// A Message is one event of the stream.
type Message struct {
	Event string // state, update, gone, end, or of another feed
	Data  []byte // JSON, without line ends
	// Whole: it replaces all that was shown before, so those who come now need nothing else.
	Whole bool
	// Last: nothing comes after it.
	Last bool
}

// Events of a Message. See snapshot.go.
const (
	EventState  = "state"
	EventUpdate = "update"
	EventGone   = "gone"
	EventEnd    = "end"
)

// NewMessage encodes v. It panics for what JSON does not have, such as a channel.
func NewMessage(event string, v any) Message {
	b, err := json.Marshal(v)
	if err != nil {
		panic("page: " + event + ": " + err.Error()) // a type of this program's own
	}
	return Message{Event: event, Data: b, Whole: event == EventState, Last: event == EventEnd}
}
