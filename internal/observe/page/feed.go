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
	// Poll asks for what is new since the Poll before, and returns it. The Server calls it once
	// a second while a page is open, with a deadline in ctx. If the source does not answer,
	// Poll returns a message that says so.
	Poll(ctx context.Context) Message
	// Whole returns all that is known as of the last Poll, for a browser that has nothing yet:
	// one message with the state, if there is one, and another one if the source does not
	// answer or has ended.
	Whole() []Message
	// Routes are handlers of further GET requests, by path, below /api/. Only browsers with a
	// session reach them. They run concurrently with everything else.
	Routes() map[string]http.HandlerFunc
}

// A Message is one event of the stream.
type Message struct {
	// Event is state, update, gone, end, or one of another feed.
	Event string

	Data []byte // JSON, without line ends
	// Whole: it replaces all that was shown before, so those who come now need nothing else.
	Whole bool
	// Last says that nothing comes after it.
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
		// v is of a type of this program, so this is a mistake in the program.
		panic("page: " + event + ": " + err.Error())
	}
	return Message{Event: event, Data: b, Whole: event == EventState, Last: event == EventEnd}
}
