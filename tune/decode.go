package tune

import (
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
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
	case EventOpen, EventExhausted:
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
	return h
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
	x.Donor, x.Params = d.donor(x.Action)
	if d.has(`,"others":[`) {
		for d.err == nil {
			var o Order
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

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("byte %d: %s", d.i, what)
	}
}

// has goes past s if it is next.
func (d *decoder) has(s string) bool {
	if d.err == nil && len(d.b)-d.i >= len(s) && string(d.b[d.i:d.i+len(s)]) == s {
		d.i += len(s)
		return true
	}
	return false
}

func (d *decoder) want(s string) {
	if !d.has(s) {
		d.fail("want " + s)
	}
}

// while takes bytes for as long as they are in set.
func (d *decoder) while(set string) []byte {
	from := d.i
	for d.i < len(d.b) && strings.IndexByte(set, d.b[d.i]) >= 0 {
		d.i++
	}
	return d.b[from:d.i]
}

func (d *decoder) int() int {
	if d.err != nil {
		return 0
	}
	s := d.while("-0123456789")
	n, err := strconv.ParseInt(string(s), 10, 64)
	if err != nil || len(s) > 1 && (s[0] == '0' || s[0] == '-' && s[1] == '0') {
		d.fail("want an integer")
	}
	return int(n)
}

func (d *decoder) nonzero() int {
	n := d.int()
	if n == 0 {
		d.fail("want another number than 0")
	}
	return n
}

func (d *decoder) uint() uint64 {
	if d.err != nil {
		return 0
	}
	s := d.while("0123456789")
	n, err := strconv.ParseUint(string(s), 10, 64)
	if err != nil || len(s) > 1 && s[0] == '0' {
		d.fail("want a number")
	}
	return n
}

func (d *decoder) ints() []int {
	var list []int
	d.want("[")
	for !d.has("]") && d.err == nil {
		if len(list) > 0 {
			d.want(",")
		}
		list = append(list, d.int())
	}
	return list
}

func (d *decoder) time() time.Time {
	s := d.while("0123456789-:.TZ")
	t, err := time.Parse(time.RFC3339Nano, string(s))
	if err != nil || string(t.UTC().AppendFormat(nil, time.RFC3339Nano)) != string(s) {
		d.fail("want a time")
	}
	return t
}

// number is what appendNumber wrote, to the bit but for the payload of a NaN.
func (d *decoder) number() float64 {
	switch {
	case d.has(`"NaN"`):
		return math.NaN()
	case d.has(`"+Inf"`):
		return math.Inf(1)
	case d.has(`"-Inf"`):
		return math.Inf(-1)
	}
	s := d.while("0123456789+-.e")
	f, err := strconv.ParseFloat(string(s), 64)
	if err != nil || string(strconv.AppendFloat(make([]byte, 0, 32), f, 'g', -1, 64)) != string(s) {
		d.fail("want a number")
	}
	return f
}

func (d *decoder) notNaN() float64 {
	f := d.number()
	if f != f {
		d.fail("want a number, not NaN")
	}
	return f
}

// text is the string behind the key, or "" if the key is not next.
func (d *decoder) text(key string) string {
	if !d.has(key) {
		return ""
	}
	s := d.name()
	if s == "" {
		d.fail("want a text that is not empty")
	}
	return s
}

// maxNames bounds how many names are kept.
const maxNames = 1 << 12

// name is string for what comes again and again.
func (d *decoder) name() string {
	from := d.i
	if d.err == nil && d.i < len(d.b) && d.b[d.i] == '"' {
		for j := d.i + 1; j < len(d.b); j++ {
			if c := d.b[j]; c == '"' {
				if s, ok := d.names[string(d.b[from+1:j])]; ok {
					d.i = j + 1
					return s
				}
				break
			} else if c < 0x20 || c >= 0x7f || c == '\\' {
				break
			}
		}
	}
	s := d.string()
	if d.err == nil && d.i-from == len(s)+2 && len(s) < 100 && len(d.names) < maxNames {
		d.names[s] = s
	}
	return s
}

// string reads what appendString wrote.
func (d *decoder) string() string {
	if d.err != nil {
		return ""
	}
	from := d.i
	d.want(`"`)
	var s []byte
	for d.err == nil {
		if d.i == len(d.b) {
			d.fail("want a string")
			return ""
		}
		c := d.b[d.i]
		d.i++
		switch {
		case c == '"':
			if !utf8.Valid(s) || string(appendString(nil, string(s))) != string(d.b[from:d.i]) {
				d.fail("want a string")
			}
			return string(s)
		case c == '\\':
			s = d.escaped(s)
		default:
			s = append(s, c)
		}
	}
	return ""
}

func (d *decoder) escaped(s []byte) []byte {
	switch {
	case d.has("n"):
		return append(s, '\n')
	case d.has(`"`):
		return append(s, '"')
	case d.has(`\`):
		return append(s, '\\')
	case d.has("u00") && len(d.b)-d.i >= 2:
		n, err := strconv.ParseUint(string(d.b[d.i:d.i+2]), 16, 8)
		if err != nil {
			break
		}
		d.i += 2
		return append(s, byte(n))
	}
	d.fail("want an escape of a string")
	return s
}

func (d *decoder) params() Params {
	var list []pair
	d.want("{")
	for !d.has("}") && d.err == nil {
		if len(list) > 0 {
			d.want(",")
		}
		name := d.name()
		d.want(":")
		list = append(list, pair{name, d.value()})
		if len(list) > maxParams {
			d.fail("too many parameters")
		}
	}
	return Params{list}
}

func (d *decoder) value() any {
	if d.err != nil || d.i == len(d.b) {
		d.fail("want a value")
		return nil
	}
	switch d.b[d.i] {
	case '"':
		return d.name()
	case 't':
		d.want("true")
		return true
	case 'f':
		d.want("false")
		return false
	}
	s := string(d.while("0123456789+-.e"))
	v, err := parseNumber(s)
	if err != nil || string(appendValue(make([]byte, 0, 32), v)) != s {
		d.fail("want a value")
	}
	return v
}
