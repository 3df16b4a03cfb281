package control

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The ends of ranges that are only bounded on one side.
const (
	unbounded = math.MaxInt64
	full      = 65536 // most limits of counts, ranks and codes
)

func decodeRequest(text string) error    { _, err := DecodeRequest([]byte(text)); return err }
func decodeReport(text string) error     { _, err := DecodeReport([]byte(text)); return err }
func decodeResult(text string) error     { _, err := DecodeResult([]byte(text)); return err }
func decodeLine(text string) error       { _, err := DecodeLine([]byte(text)); return err }
func decodeAdaptation(text string) error { _, err := DecodeAdaptation(text); return err }
func decodeAnswer[A any, P interface {
	*A
	Answer
}](text string) error {
	return DecodeAnswer([]byte(text), P(new(A)))
}

// The begins of messages, with the fields that they need; more fields follow.
const (
	running = `{"phase":"running",`
	ended   = `{"version":1,"exit_code":1,"phase":"running",`
)

// process is one of a Result; its number and the fields behind it follow.
const process = ended + `"processes":[{"role":"worker","fate":"ended","process":`

// failures are failures with one number that has bounds, as fields of what has one.
var failures = []struct {
	text      string
	low, high int
}{
	{`"failure":{"code":"lost","rank":#}}`, -1, full},
	{`"failure":{"code":"lost","left":#}}`, 0, unbounded},
	{`"failure":{"code":"lost","least":#}}`, 0, unbounded},
	{`"failure":{"code":"lost","waited_ns":#}}`, 0, unbounded},
	{`"failure":{"code":"lost","cause":{"kind":"exit","exit":#}}}`, -full, full},
	{`"failure":{"code":"lost","cause":{"kind":"signal","signal":#}}}`, 1, full},
	{`"failure":{"code":"lost","cause":{"kind":"silence","silence_ns":#}}}`, 0, unbounded},
}

// Of each number of a message both ends of its range are taken, and what lies just outside is
// refused.
func TestNumbersAreTakenWithinTheirBoundsAlone(t *testing.T) {
	type bound struct {
		decode    func(string) error
		text      string // with # in place of the number
		low, high int
	}
	bounds := []bound{
		{decodeRequest, `{"op":"add","host":"d","slots":#}`, 0, full},
		{decodeRequest, `{"op":"add","host":"d","gpus":#}`, -1, full},
		{decodeRequest, `{"op":"add","host":"d","cpus":#}`, 0, full},
		{decodeRequest, `{"op":"remove-server","rank":#}`, 0, full},
		{decodeRequest, `{"op":"events","wait_ms":#}`, 0, 60000},
		{decodeRequest, `{"op":"series","points":#}`, 0, 4096},
		{decodeRequest, `{"op":"series","since_ms":#}`, 0, unbounded},
		{decodeRequest, `{"op":"trace","window_ms":1,"steps":#}`, 0, 1000},
		{decodeRequest, `{"op":"trace","steps":#}`, 1, 1000},
		{decodeRequest, `{"op":"trace","steps":1,"window_ms":#}`, 0, 120000},
		{decodeRequest, `{"op":"trace","window_ms":#}`, 1, 120000},
		{decodeRequest, `{"op":"trace-parts","trace":#}`, 1, unbounded},
		{decodeRequest, `{"op":"trace-end","trace":#}`, 1, unbounded},
		{decodeRequest, `{"op":"report","observed":{"number":1,"processes":[{"role":"worker","state":"running","process":#}]}}`, 1, math.MaxUint32},
		{decodeRequest, `{"op":"scale","workers":#}`, 1, full},
		{decodeRequest, `{"op":"scale","placement":[{"host":"d","workers":#}]}`, 0, full},
		{decodeRequest, `{"op":"scale","placement":[{"host":"c","workers":60000},{"host":"d","workers":#}]}`, 0, full - 60000},
		{decodeRequest, `{"op":"scale","placement":[{"host":"d","workers":1}],"workers":#}`, 0, 0},
		{decodeRequest, `{"op":"status","workers":#}`, 0, 0},
		{decodeRequest, `{"op":"report","observed":{"number":1,"processes":[{"process":1,"role":"worker","state":"ended","cause":{"kind":"exit","exit":#}}]}}`, -full, full},

		{decodeAdaptation, `{"workers":#}`, 0, unbounded},
		{decodeAdaptation, `{"gain":#}`, 0, unbounded},
		{decodeAdaptation, `{"wished_workers":#}`, 0, full},
		{decodeAdaptation, `{"model":{"bytes":#}}`, 0, unbounded},
		{decodeAdaptation, `{"model":{"gamma":#}}`, 0, unbounded},

		{decodeAnswer[Status], running + `"workers":#}`, 0, unbounded},
		{decodeAnswer[Status], running + `"nodes_left_out":#}`, 0, unbounded},
		{decodeAnswer[Status], running + `"change":{"seconds":#}}`, 0, math.MaxInt32},
		{decodeAnswer[Status], running + `"adaptation":{"local_batch":#}}`, 0, unbounded},
		{decodeAnswer[Status], running + `"scale":{"state":"under_way","workers":#}}`, 0, full},
		{decodeAnswer[Status], running + `"scale":{"state":"under_way","present":#}}`, 0, unbounded},
		{decodeAnswer[Status], running + `"scale":{"state":"under_way","placement":[{"host":"d","workers":#}]}}`, 0, full},
		{decodeAnswer[Status], running + `"nodes":[{"role":"server","state":"counts","rank":#}]}`, -1, full},
		{decodeAnswer[Status], running + `"servers":[{"status":"HERE","rank":#}]}`, 0, full},
		{decodeAnswer[Status], running + `"servers":[{"status":"HERE","shards":#}]}`, 0, unbounded},
		{decodeAnswer[Status], running + `"servers":[{"status":"HERE","backups":#}]}`, 0, unbounded},
		{decodeAnswer[Status], running + `"servers":[{"status":"HERE","filling":#}]}`, 0, unbounded},

		{decodeAnswer[Events], running + `"events":[{"action":"ADDED","number":#}]}`, 1, unbounded},
		{decodeAnswer[Events], running + `"events":[{"action":"ADDED","number":7},{"action":"LEFT","number":#}]}`, 8, unbounded},
		{decodeAnswer[Events], running + `"events":[{"number":1,"action":"ADD_QUEUED","slots":#}]}`, 0, full},
		{decodeAnswer[Events], running + `"events":[{"number":1,"action":"ADD_QUEUED","gpus":#}]}`, -1, full},
		{decodeAnswer[Events], running + `"events":[{"number":1,"action":"ADD_QUEUED","cpus":#}]}`, 0, full},
		{decodeAnswer[Events], running + `"events":[{"number":1,"action":"SERVER_ADDED","rank":#}]}`, 0, full},
		{decodeAnswer[Events], running + `"events":[{"number":1,"action":"SCALING","workers":#}]}`, 0, full},
		{decodeAnswer[Events], running + `"events":[{"number":1,"action":"SCALING","placement":[{"host":"d","workers":#}]}]}`, 0, full},

		{decodeAnswer[Done], `{"rank":#}`, 0, full},
		{decodeAnswer[Why], `{"waits":[{"seconds":#}]}`, 0, math.MaxInt32},
		{decodeAnswer[Why], `{"slow":[{"rank":#}]}`, -1, full},
		{decodeAnswer[Why], `{"slow":[{"share":#}]}`, 0, math.MaxInt32},
		{decodeAnswer[Why], `{"slow":[{"steps":#}]}`, 0, math.MaxInt32},
		{decodeAnswer[Why], `{"slow":[{"step_seconds":#}]}`, 0, math.MaxInt32},

		{decodeAnswer[Telemetry], running + `"nodes_left_out":#}`, 0, unbounded},
		{decodeAnswer[Telemetry], running + `"columns":[{"metric":"loss","index":#}],"totals":[1]}`, 0, unbounded},
		{decodeAnswer[Telemetry], running + `"nodes":[{"role":"server","state":"counts","rank":#}]}`, -1, full},
		{decodeAnswer[Series], `{"step_ms":#}`, 1, unbounded},
		{decodeAnswer[Series], `{"step_ms":1,"nodes_left_out":#}`, 0, unbounded},

		{decodeAnswer[Trace], `{"trace":#}`, 1, unbounded},
		{decodeAnswer[Trace], `{"trace":1,"start_ms":#}`, 0, unbounded},
		{decodeAnswer[Trace], `{"trace":1,"workers":#}`, 0, unbounded},
		{decodeAnswer[Trace], `{"trace":1,"servers":#}`, 0, unbounded},
		{decodeAnswer[Trace], `{"trace":1,"left_out":#}`, 0, unbounded},
		{decodeAnswer[TraceParts], `{"state":"done","nodes":[{"role":"worker","rank":#}]}`, 0, full},
		{decodeAnswer[TraceParts], `{"state":"done","nodes":[{"role":"server","bound_ns":#}]}`, 0, unbounded},
		{decodeAnswer[TraceParts], `{"state":"done","last":9,"chunks":[{"number":3},{"number":#}]}`, 4, 9},
		{decodeAnswer[TraceParts], `{"state":"done","last":5,"chunks":[{"number":#}]}`, 0, 5},

		{decodeReport, `{"present":{"role":"worker","rank":#}}`, -1, full},
		{decodeReport, `{"absent":{"role":"server","rank":#}}`, -1, full},
		{decodeReport, `{"adaptation":{"nodes":#}}`, 0, unbounded},

		{decodeResult, `{"version":#,"exit_code":1,"phase":"starting"}`, 1, 1},
		{decodeResult, `{"version":1,"phase":"forming","exit_code":#}`, 0, full},
		{decodeResult, ended + `"signal":#}`, 0, full},
		{decodeResult, ended + `"restarts":#}`, 0, unbounded},
		{decodeResult, ended + `"scales":#}`, 0, unbounded},
		{decodeResult, ended + `"processes_left_out":#}`, 0, unbounded},
		{decodeResult, ended + `"changes_left_out":#}`, 0, unbounded},
		{decodeResult, ended + `"adaptation":{"nodes":#}}`, 0, unbounded},
		{decodeResult, ended + `"metrics":{"values":{"loss":1},"step":#}}`, 0, 1 << 53},
		{decodeResult, process + `#}]}`, 1, math.MaxUint32},
		{decodeResult, process + `1,"rank":#}]}`, 0, unbounded},
		{decodeResult, process + `1,"pid":#}]}`, 0, unbounded},
		{decodeResult, process + `1,"seconds":#}]}`, 0, 100 * 365 * 24 * 3600},
		{decodeResult, process + `1,"cause":{"kind":"signal","signal":#}}]}`, 1, full},

		{decodeLine, `{"role":"worker","stream":"stderr","rank":#}`, 0, unbounded},
	}
	for _, f := range failures {
		bounds = append(bounds, bound{decodeAnswer[Status], running + f.text, f.low, f.high}, bound{decodeAnswer[Events], running + f.text, f.low, f.high},
			bound{decodeResult, ended + f.text, f.low, f.high}, bound{decodeReport, strings.Replace(`{`+f.text, "failure", "failed", 1), f.low, f.high})
	}
	for _, b := range bounds {
		at := func(n int) error { return b.decode(strings.Replace(b.text, "#", strconv.Itoa(n), 1)) }
		for _, n := range []int{b.low, min(b.low+1, b.high), b.high} {
			if n == unbounded {
				n = 1 << 40
			}
			if err := at(n); err != nil {
				t.Errorf("%s: %d: got %v, want it taken", b.text, n, err)
			}
		}
		if err := at(b.low - 1); err == nil {
			t.Errorf("%s: %d was taken, want %d or more", b.text, b.low-1, b.low)
		}
		if b.high == unbounded {
			continue
		}
		if err := at(b.high + 1); err == nil {
			t.Errorf("%s: %d was taken, want at most %d", b.text, b.high+1, b.high)
		}
	}
}

// Texts and lists are taken up to their limits.
func TestLengthsAreTakenUpToTheirLimits(t *testing.T) {
	list := func(n int, x string) string {
		return "[" + strings.Repeat(x+",", max(n-1, 0)) + strings.Repeat(x, min(n, 1)) + "]"
	}
	padded := func(text string) func(int) string {
		return func(n int) string { return text + strings.Repeat(" ", max(n-len(text), 0)) }
	}
	quoted := func(text string) func(int) string {
		return func(n int) string { return strings.Replace(text, "#", strings.Repeat("x", n), 1) }
	}
	for _, b := range []struct {
		decode func(string) error
		text   func(n int) string
		least  int
		most   int
	}{
		{decodeRequest, quoted(`{"op":"add","host":"#"}`), 1, 255},
		{decodeRequest, quoted(`{"op":"remove","host":"#"}`), 1, 255},
		{decodeRequest, quoted(`{"op":"add-server","host":"#"}`), 0, 255},
		{decodeRequest, quoted(`{"op":"stop","reason":"#"}`), 0, 8192},
		{decodeRequest, quoted(`{"op":"report","observed":{"number":1,"hosts":[{"host":"#"}]}}`), 1, 255},
		{decodeRequest, quoted(`{"op":"scale","placement":[{"host":"#","workers":1}]}`), 1, 255},
		{decodeRequest, func(n int) string { return `{"op":"telemetry","metrics":` + list(n, `"m"`) + `}` }, 0, 256},
		{decodeRequest, func(n int) string { return `{"op":"trace","steps":1,"ranks":` + list(n, "1") + `}` }, 0, 32},
		{decodeRequest, padded(`{"op":"status"}`), 15, 64 << 10},
		{decodeAdaptation, quoted(`{"wish_reason":"#"}`), 0, 512},
		{decodeAdaptation, padded(`{}`), 2, 4 << 10},
		{decodeAnswer[Done], padded(`{}`), 2, 1<<20 - 64},
		{decodeAnswer[Telemetry], quoted(running + `"scores":["#"]}`), 1, 32},
		{decodeAnswer[Series], quoted(`{"step_ms":1,"scores":["#"]}`), 1, 32},
		{decodeAnswer[Telemetry], func(n int) string { return running + `"scores":` + list(n, `"x"`) + `}` }, 0, 12},
		{decodeAnswer[Series], func(n int) string { return `{"step_ms":1,"scores":` + list(n, `"x"`) + `}` }, 0, 12},
		{decodeAnswer[TraceParts], func(n int) string { return `{"state":"recording","nodes":` + list(n, `{"role":"worker"}`) + `}` }, 0, 64},
		{decodeReport, padded(`{"running":true}`), 16, 64 << 10},
		{decodeReport, quoted(`{"metrics":"#:1"}`), 0, 253},
		{decodeLine, padded(`{"role":"worker","stream":"stdout"}`), 35, 512 << 10},
		{decodeResult, func(n int) string {
			var values []string
			for i := range n {
				values = append(values, fmt.Sprintf(`"m%d":1`, i))
			}
			return ended + `"metrics":{"values":{` + strings.Join(values, ",") + `}}}`
		}, 1, 256},
	} {
		for _, n := range []int{b.least, b.most} {
			if err := b.decode(b.text(n)); err != nil {
				t.Errorf("%.100s: of length %d: got %v, want it taken", b.text(n), n, err)
			}
		}
		if err := b.decode(b.text(b.most + 1)); err == nil {
			t.Errorf("%.100s: of length %d, %d too many, was taken", b.text(b.most), b.most+1, 1)
		}
		if short := b.text(max(b.least-1, 0)); b.least > 0 && len(short) < len(b.text(b.least)) {
			if err := b.decode(short); err == nil {
				t.Errorf("%.100s: of length %d was taken, want at least %d", short, b.least-1, b.least)
			}
		}
	}
}

// What is written keeps to the limits of what is read, and is as long as these allow.
func TestWhatIsWrittenKeepsToTheLimits(t *testing.T) {
	filled := func(write func(n int) (string, error), most int) {
		t.Helper()
		text, err := write(0)
		if err != nil {
			t.Fatal(err)
		}
		least := len(text)
		if text, err = write(most - least); err != nil || len(text) != most {
			t.Errorf("%.60s: got %d bytes, %v, want all %d", text, len(text), err, most)
		}
		if text, err := write(most - least + 1); err == nil {
			t.Errorf("%.60s: %d bytes were written, want at most %d", text, len(text), most)
		}
	}
	filled(func(n int) (string, error) {
		b, err := EncodeAnswer(&Done{Error: "x" + strings.Repeat("x", n)})
		return string(b), err
	}, 1<<20-64)
	filled(func(n int) (string, error) {
		f := Failure{Code: NotJoined, Host: strings.Repeat("h", n+1)}
		return Report{Failed: &f}.Line()
	}, 64<<10)

	long := Adaptation{Noise: &AdaptationNoise{}, Model: &AdaptationModel{}, Limits: &AdaptationLimits{}}
	for _, part := range []any{&long, long.Noise, long.Model, long.Limits} {
		v := reflect.ValueOf(part).Elem()
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.Int, reflect.Int64:
				f.SetInt(math.MaxInt64)
			case reflect.Float64:
				f.SetFloat(math.MaxFloat64)
			}
		}
	}
	filled(func(n int) (string, error) {
		long.WishedWorkers = full
		long.WishReason = "x" + strings.Repeat("\x01", n/6) + strings.Repeat("x", n%6) // six bytes each, and one
		return EncodeAdaptation(long)
	}, 4<<10)

	finite := Result{Version: ResultVersion, ExitCode: 1, Phase: Running}
	for value, want := range map[float64]bool{0: true, -1: true, math.NaN(): false, math.Inf(1): false, math.Inf(-1): false} {
		finite.Metrics = &Metrics{Step: 1, Values: map[string]float64{"loss": value}}
		_, err := EncodeResult(&finite)
		if want && err != nil || !want && (err == nil || !strings.Contains(err.Error(), `metric "loss" is`)) {
			t.Errorf("a metric of %g: got %v, want it written: %t", value, err, want)
		}
	}
}

// Numbers are written with as few digits as they need, and the same number is read.
func TestNumbersAreReadAsTheyWereWritten(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1e-6: "0.000001", -1e-6: "-0.000001", 9.9e-7: "9.9e-07", 1e21: "1e+21", 9e20: "900000000000000000000", -1e21: "-1e+21", 1.5: "1.5",
		1e-300: "1e-300", math.Inf(1): `"+Inf"`, math.Inf(-1): `"-Inf"`} {
		b, err := Number(x).MarshalJSON()
		var back Number
		if err != nil || string(b) != want || back.UnmarshalJSON(b) != nil || float64(back) != x {
			t.Errorf("%g: got %s, %v, read as %g; want %s", x, b, err, float64(back), want)
		}
	}
	list := Numbers{1, Number(math.NaN()), -2.5, 1e30}
	b, err := list.MarshalJSON()
	if err != nil || string(b) != "[1,null,-2.5,1e+30]" || list.Size() < len(b) || list.Size() > len(b)+1 {
		t.Errorf("got %s, %v, said to have %d bytes", b, err, list.Size())
	}
	if b, err := (Numbers{}).MarshalJSON(); err != nil || string(b) != "[]" {
		t.Errorf("none: got %s, %v", b, err)
	}
}

// A line has metrics up to so many names and steps, of which a float64 has all digits.
func TestLinesWithMetricsHaveLimits(t *testing.T) {
	line := func(n int) string {
		text := "step=1"
		for i := range n {
			text += fmt.Sprintf(" m%d=1", i)
		}
		return text
	}
	for text, want := range map[string]bool{line(0): false, line(1): true, line(255): true, line(256): false, "a=1 step=9007199254740992": true, "a=1 step=9007199254740994": false,
		"a=1 step=0": true, "a=1e999 step=1": true, "a=-1e999 step=1": true, "a=1 step=1e999": false, "a step=1": false} {
		if m, ok := ParseMetrics(text); ok != want {
			t.Errorf("%.60s: got %v, %t, want %t", text, m, ok, want)
		}
	}
}

// Times and placements in words.
func TestTimesAndPlacementsInWords(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 s", time.Second: "1 s", 1500 * time.Millisecond: "1.5 s", 9900 * time.Millisecond: "9.9 s", 10 * time.Second: "10 s", 10500 * time.Millisecond: "10 s",
		time.Minute: "60 s"} {
		if got := Seconds(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
	two := []WorkersOnHost{{"d1", 2}, {"d2", 0}}
	for got, want := range map[string]string{ScaleText(1, nil): "1 worker", ScaleText(2, two): "2 workers (d1=2,d2=0)", PlacementText(two[:1]): "d1=2", PlacementText(nil): ""} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for q, want := range map[*Request]int{{Workers: 3}: 3, {Placement: []WorkersOnHost{{"a", 2}, {"b", 1}}}: 3, {}: 0} {
		if got := q.Wanted(); got != want {
			t.Errorf("%+v: %d workers are wanted, want %d", q, got, want)
		}
	}
}
