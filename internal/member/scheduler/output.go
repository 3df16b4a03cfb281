package scheduler

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// An output collects the effects of the event that is being handled. Machines get it as an argument
// and reach nodes, people and the journal in no other way, so that a machine can be tested with an
// output of its own.
//
// Nothing is sent before the event has been handled and its records are in the journal. Within each
// list the order is the order of the calls.
type output struct {
	Output

	// now is the time of the event. It never runs backwards.
	now time.Time
	// unkept says that there is no journal: no records are made.
	unkept bool
	// job is read for the generation and the revision that every answer carries.
	job *jobState
	// events numbers and remembers what event tells.
	events *eventLog
}

// answer answers a request, which may be an earlier one than the event's.
func (o *output) answer(request uint64, m wire.Message) {
	o.Answers = append(o.Answers, Answer{request, m})
}

// refuse answers that a request is not granted, and why. The generation tells a node that was
// refused as stale what to wait for.
func (o *output) refuse(request uint64, code wire.Code, format string, args ...any) {
	o.answer(request, &wire.Nack{Code: code, Generation: o.job.generation, Text: fmt.Sprintf(format, args...)})
}

// ack answers that a request was carried out. The revision tells the node which membership has the
// result.
func (o *output) ack(request uint64) {
	o.answer(request, &wire.Ack{Generation: o.job.generation, Revision: o.job.revision})
}

// report answers a control request.
func (o *output) report(request uint64, answer control.Answer) {
	b, err := control.EncodeAnswer(answer)
	if err != nil {
		o.refuse(request, wire.CodeInternal, "%v", err)
		return
	}
	o.answer(request, &wire.Report{Answer: string(b)})
}

// note adds a note. The caller may set its Event, before the next note.
func (o *output) note(format string, args ...any) *Note {
	o.Notes = append(o.Notes, Note{Text: fmt.Sprintf(format, args...)})
	return &o.Notes[len(o.Notes)-1]
}

// warn adds a note at the level of a warning.
func (o *output) warn(format string, args ...any) *Note {
	o.Warnings = append(o.Warnings, Note{Text: fmt.Sprintf(format, args...)})
	return &o.Warnings[len(o.Warnings)-1]
}

// presence reports a node that has registered or disconnected while the job is forming.
func (o *output) presence(n *node, here bool) {
	o.Presence = append(o.Presence, Presence{Place{n.Role, int(n.wantedRank)}, n.process, here})
}

// event tells an event to whoever follows the job, and to the log.
func (o *output) event(e control.Event) { o.events.add(o, e, loggedEvent(e)) }

// eventLogged is event with what the log says of it.
func (o *output) eventLogged(e control.Event, said slog.Attr) { o.events.add(o, e, said) }

// loss tells the event of a node that was lost.
func (o *output) loss(n *node, text string) {
	o.eventLogged(n.event(control.Lost, text), n.loggedLoss(text, o.job.generation))
}

// put adds a record.
func (o *output) put(key string, value any) {
	if o.unkept {
		return
	}
	b, err := json.Marshal(value)
	if err != nil {
		// Plain structs always marshal.
		panic(fmt.Sprintf("scheduler: record %s: %v", key, err))
	}
	o.Records = append(o.Records, Record{key, b})
}

// drop removes a record.
func (o *output) drop(key string) {
	if !o.unkept {
		o.Records = append(o.Records, Record{Key: key})
	}
}
