package tune

import (
	"fmt"
	"hash/crc32"
	"time"
)

// A decoder reads lines that appendEvent wrote. It keeps names that come again.
type decoder struct {
	b     []byte
	i     int
	err   error
	names map[string]string
}

// sumLen is the length of what stands after the bytes that are summed up.
const sumLen = len(`,"sum":"01234567"}`)

// event reads one line without its newline.
func (d *decoder) event(line []byte) (Event, error) {
	if len(line) < sumLen {
		return Event{}, fmt.Errorf("got %d bytes, want at least %d", len(line), sumLen)
	}
	body, tail := line[:len(line)-sumLen], line[len(line)-sumLen:]
	if got, want := string(tail), fmt.Sprintf(`,"sum":"%08x"}`, crc32.Checksum(body, castagnoli)); got != want {
		return Event{}, fmt.Errorf("ends in %q, want %q", got, want)
	}
	if d.names == nil {
		d.names = map[string]string{}
	}
	d.b, d.i, d.err = body, 0, nil
	var e Event
	d.want(`{"seq":`)
	e.Seq = d.uint()
	d.want(`,"time":"`)
	e.Time = d.time()
	d.want(`","at":`)
	e.At = time.Duration(d.int())
	d.want(`,"kind":`)
	e.Kind = EventKind(d.name())
	d.fields(&e)
	if d.err == nil && d.i != len(d.b) {
		d.fail("more than the event's fields")
	}
	if d.err != nil {
		return Event{}, d.err
	}
	return e, nil
}

func (d *decoder) fields(e *Event) {
	switch e.Kind {
	case EventStudy:
		e.Header = d.header()
		e.Rules = d.rules()
	case EventOpen:
		e.Rules = d.rules()
	case EventExhausted:
		e.Rule = d.text(`,"rule":`)
	case EventStart:
		d.start(e)
	case EventReport:
		d.of(e)
		d.want(`,"step":`)
		e.Step = d.int()
		e.Metrics = d.metrics()
		if e.Kept = d.has(`,"kept":`); e.Kept {
			e.Bytes = int64(d.int())
		}
		e.Decision = d.decision()
	case EventCheckpoint, EventDrop:
		d.of(e)
		d.want(`,"step":`)
		e.Step = d.int()
		d.want(`,"bytes":`)
		e.Bytes = int64(d.int())
	case EventEnd:
		d.of(e)
		e.Outcome = Outcome(d.text(`,"outcome":`))
		e.Failure = Failure(d.text(`,"failure":`))
		e.Error = d.text(`,"error":`)
		e.Retry = d.has(`,"retry":true`)
	case EventHalt:
		e.Rule = d.text(`,"rule":`)
		e.Error = d.text(`,"error":`)
	case EventAllocate:
		d.allocation(e)
	case EventRequeue, EventAbandon:
		d.want(`,"trials":`)
		e.Trials = d.ints()
		e.Fresh = d.has(`,"fresh":true`)
		e.Rule = d.text(`,"rule":`)
	default:
		d.fail(fmt.Sprintf("kind %q is unknown", e.Kind))
	}
}

func (d *decoder) of(e *Event) {
	d.want(`,"trial":`)
	e.Trial = d.int()
	d.want(`,"attempt":`)
	e.Attempt = d.int()
}

func (d *decoder) start(e *Event) {
	d.of(e)
	if e.Origin = Origin(d.text(`,"origin":`)); e.Origin != "" {
		e.New = true
	} else {
		d.want(`,"donor":`)
		e.Donor = d.int()
		d.want(`,"restore":`)
		e.Restore = d.int()
		d.want(`,"of":`)
		e.RestoreOf = d.int()
	}
	if e.New {
		d.want(`,"params":`)
		e.Params = d.params()
	} else if d.has(`,"params":`) {
		if e.Params = d.params(); e.Params.Len() == 0 {
			d.fail("empty parameters")
		}
	}
	e.Rule = d.text(`,"rule":`)
	e.Location = d.text(`,"location":`)
}

func (d *decoder) header() *Header {
	h := &Header{}
	d.want(`,"version":`)
	h.Version = d.int()
	d.want(`,"name":`)
	h.Name = d.string()
	h.Metric = d.text(`,"metric":`)
	d.want(`,"mode":`)
	mode := d.string()
	m, err := ParseMode(mode)
	if err != nil || mode == "" {
		d.fail("no such mode")
	}
	h.Mode = m
	d.want(`,"seed":`)
	h.Seed = d.uint()
	d.want(`,"space":[`)
	for !d.has("]") && d.err == nil {
		if len(h.Space) > 0 {
			d.want(",")
		}
		h.Space = append(h.Space, d.string())
	}
	h.Suggester = d.text(`,"suggester":`)
	h.Scheduler = d.text(`,"scheduler":`)
	h.Objectives = d.texts(`,"objectives":`)
	h.Constraints = d.texts(`,"constraints":`)
	return h
}

// texts reads a list that is not empty, if the key is there.
func (d *decoder) texts(key string) (list []string) {
	if !d.has(key) {
		return nil
	}
	d.want("[")
	for d.err == nil {
		list = append(list, d.string())
		if d.has("]") {
			break
		}
		d.want(",")
	}
	return list
}

func (d *decoder) metrics() Metrics {
	d.want(`,"metrics":{`)
	m := make(Metrics, 0, 2)
	for !d.has("}") && d.err == nil {
		if len(m) > 0 {
			d.want(",")
		}
		name := d.name()
		d.want(":")
		if len(m) > 0 && m[len(m)-1].Name >= name {
			d.fail("metrics are not sorted")
		}
		m = append(m, Metric{name, d.number()})
	}
	return m
}

func (d *decoder) decision() Decision {
	x := Go()
	if !d.has(`,"decision":{"action":`) {
		return x
	}
	x.Action = Action(d.name())
	x.Rule = d.text(`,"rule":`)
	if d.has(`,"rung":`) {
		x.Rung = d.nonzero()
	}
	if d.has(`,"value":`) {
		x.Value = d.notNaN()
	}
	if d.has(`,"cutoff":`) {
		x.Cutoff = d.notNaN()
	}
	if d.has(`,"competitors":`) {
		if x.Competitors = d.ints(); len(x.Competitors) == 0 {
			d.fail("empty competitors")
		}
	}
	x.Forecast = d.forecast()
	x.Donor, x.Params = d.donor(x.Action)
	if d.has(`,"others":[`) {
		for d.err == nil {
			var o TrialDecision
			d.want(`{"trial":`)
			o.Trial = d.int()
			d.want(`,"action":`)
			o.Action = Action(d.name())
			o.Rule = d.text(`,"rule":`)
			o.Donor, o.Params = d.donor(o.Action)
			d.want("}")
			x.Others = append(x.Others, o)
			if d.has("]") {
				break
			}
			d.want(",")
		}
	}
	d.want("}")
	if x.Action == "" || x.plain() {
		d.fail("a decision that says nothing")
	}
	return x
}

func (d *decoder) donor(a Action) (int, Params) {
	if a != Exploit {
		return 0, Params{}
	}
	d.want(`,"donor":`)
	n := d.int()
	d.want(`,"params":`)
	return n, d.params()
}
