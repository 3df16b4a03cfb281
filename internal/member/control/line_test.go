package control

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLinesAreReadAsTheyWereWritten(t *testing.T) {
	want := []Line{
		{Role: Worker, Rank: 0, Stream: Stdout, Text: "accuracy=0.5 step=3"},
		{Role: Worker, Rank: 4999, Stream: Stderr, Text: "a \"quote\"\tand \u2028 é"},
		{Role: Server, Rank: 1, Stream: Stdout, Text: strings.Repeat("\x01", 64<<10), More: true},
		{Role: Scheduler, Stream: Stderr},
		{Role: Prepare, Stream: Stdout, Text: "ready"},
		{Role: Worker, Rank: 2, Stream: Stderr, Record: `{"level":"INFO","msg":"x"}`, Text: `{"level":"INFO","msg":"x"}`},
	}
	var text strings.Builder
	for _, l := range want {
		text.Write(l.Encode())
	}
	var got []Line
	if err := ReadLines(strings.NewReader(text.String()), func(l Line) { got = append(got, l) }); err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %.300v, %v, want %.300v", got, err, want)
	}
	if golden := `{"role":"worker","rank":0,"stream":"stdout","text":"accuracy=0.5 step=3"}` + "\n"; !strings.HasPrefix(text.String(), golden) {
		t.Errorf("a line is written as %.200q, want %q", text.String(), golden)
	}
	if golden := `{"role":"worker","rank":2,"stream":"stderr","text":"","record":{"level":"INFO","msg":"x"}}` + "\n"; !strings.HasSuffix(text.String(), golden) {
		t.Errorf("a record is written as %.200q, want %q", text.String(), golden)
	}
}

func TestWhatIsNoLineIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"worker 0 | accuracy=0.5\n": "line",
		"\n":                        "line",
		`{"role":"worker","rank":0,"stream":"stdout","text":"a"`:                   "line",
		`{"role":"chief","rank":0,"stream":"stdout","text":"a"}`:                   `role "chief"`,
		`{"role":"worker","rank":-1,"stream":"stdout","text":"a"}`:                 "rank -1",
		`{"role":"worker","rank":0,"stream":"log","text":"a"}`:                     `stream "log"`,
		`{"role":"worker","rank":0,"stream":"stdout","line":"a"}`:                  "unknown field",
		`{"role":"worker","rank":0,"stream":"stdout","text":"a"} more`:             "more data after",
		strings.Repeat(" ", MaxLine+1) + `{"role":"worker"}`:                       "want at most",
		`{"text":"` + strings.Repeat("x", MaxLine) + `"}`:                          "want at most",
		`{"role":"worker","rank":0,"stream":"stdout","text":"a"}` + "x":            "more data after",
		`{"role":"worker","rank":0,"stream":"stderr","record":[1]}`:                "want a JSON object",
		`{"role":"worker","rank":0,"stream":"stderr","record":null}`:               "want a JSON object",
		`{"role":"worker","rank":0,"stream":"stderr","text":"a","record":{"a":1}}`: "no text",
	} {
		if err := ReadLines(strings.NewReader(text), func(Line) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: got %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"role":"worker","rank":0,"stream":"stdout","text":"accuracy=0.5 step=3","more":true}`))
	f.Add([]byte(`{"role":"worker","rank":0,"stream":"stderr","text":"","record":{ "a": "<" }}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := DecodeLine(text)
		if err != nil {
			return
		}
		if b := l.Encode(); len(b) > MaxLine {
			return // its escapes are longer
		} else if again, err := DecodeLine(b); err != nil || again != l && l.Record == "" || again.Rank != l.Rank || (again.Record == "") != (l.Record == "") {
			t.Fatalf("%s: got %+v, %v, want %+v", text, again, err, l)
		}
	})
}
