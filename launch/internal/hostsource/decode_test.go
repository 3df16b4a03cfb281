package hostsource

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func texts(all []Instance) string {
	var parts []string
	for _, i := range all {
		parts = append(parts, fmt.Sprintf("%s %d", i.Host.Entry(), i.State))
	}
	return strings.Join(parts, ", ")
}

func TestAnswersAreDecoded(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"blank lines", "\n\r\n \n", ""},
		{"an empty array", " [] \n", ""},
		{"all fields", `{"host":"me@d3:22","slots":2,"gpus":1,"cpus":16,"state":"running"}`, "me@d3:22 slots=2 gpus=1 cpus=16 0"},
		{"lines", "{\"host\":\"d1\"}\r\n\n {\"host\":\"d2\",\"state\":\"pending\"}\n", "d1 0, d2 1"},
		{"a byte order mark", "\ufeff{\"host\":\"d1\"}", "d1 0"},
		{"an array", "\n[{\"host\":\"d1\"},\n {\"host\":\"fe80::1\",\"state\":\"stopping\"}]", "d1 0, fe80::1 2"},
		{"other fields", `{"host":"d1","zone":"a","tags":{"slots":3},"weight":1.5}`, "d1 0"},
		{"fields that are null", `{"host":"d1","slots":null,"gpus":null,"state":null}`, "d1 0"},
		{"numbers as text, as tags are", `{"host":"d1","slots":"4","gpus":"0"}`, "d1 slots=4 gpus=0 0"},
		{"states in any spelling", `[{"host":"a","state":"RUNNING"},{"host":"b","state":"VM running"},{"host":"c","state":"shutting_down"},{"host":"d","state":"Pending:Wait"},{"host":"e","state":"deprovisioning"}]`,
			"a 0, b 0, c 2, d 3, e 2"},
		{"a name that another instance had", `[{"host":"a","state":"terminated"},{"host":"A","state":"running"},{"host":"b"},{"host":"b","state":"terminated"},{"host":"c","state":"odd"},{"host":"c","state":"pending"}]`,
			"A 0, b 0, c 1"},
		{"the same twice", `[{"host":"a","slots":2},{"host":"a.","slots":2}]`, "a slots=2 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := decode([]byte(tc.text))
			if err != nil || texts(got) != tc.want {
				t.Errorf("decode %q: %s, %v, want %s", tc.text, texts(got), err, tc.want)
			}
		})
	}
}

func TestBadAnswersAreErrorsThatNameThePlace(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a hosts file", "d1\n", `line 1: "d1" is not JSON`},
		{"a message", "\nUnable to locate credentials\n", `line 2: "Unable to locate credentials" is not JSON`},
		{"a line that is cut", "{\"host\":\"d1\"}\n{\"host\":\"d2\",\"sl", `line 2: "{\"host\":\"d2\",\"sl" is incomplete: unexpected EOF; want {"host"`},
		{"an array that is cut", `[{"host":"d1"},{"host":"d2"}`, `is incomplete: unexpected EOF`},
		{"no host", `{"name":"d1"}`, "line 1: no host is named; want {"},
		{"null", "null", "line 1: no host is named"},
		{"null in an array", `[{"host":"d1"},null]`, "element 2: no host is named"},
		{"a number", "5", "line 1: got a JSON number; want {"},
		{"an array in a line", "{\"host\":\"d1\"}\n[]", "line 2: got a JSON array; want {"},
		{"a host that is a number", `{"host":7}`, `line 1: "host" is a JSON number; want {`},
		{"a host that is no host", `[{"host":"d1"},{"host":"-oProxyCommand=x"}]`, `element 2: "-oProxyCommand=x" is not a host name`},
		{"a host with more lines", `{"host":"d1\nd2"}`, "is not a host name"},
		{"slots that are none", `{"host":"d1","slots":0}`, "d1: got slots=0, want a number of workers from 1 to 5000"},
		{"slots that are a part", `{"host":"d1","slots":1.5}`, "d1: got slots=1.5, want a number"},
		{"slots that are a word", `{"host":"d1","slots":"two"}`, "invalid number"},
		{"GPUs below none", `{"host":"d1","gpus":-1}`, "d1: got gpus=-1, want a number of GPUs from 0 to 1024"},
		{"a state with an escape sequence", `{"host":"d1","state":"run\u001b[2J\nning"}`, `the state is "run\x1b[2J\nning", want a word`},
		{"a long state", `{"host":"d1","state":"` + strings.Repeat("x", 65) + `"}`, "the state has 65 bytes, want at most 64"},
		{"two opinions", "{\"host\":\"d1\",\"slots\":2}\n{\"host\":\"D1\",\"slots\":3}", `line 2: D1 is named twice, as "d1 slots=2" and as "D1 slots=3"; want it once`},
		{"too much", strings.Repeat(" ", maxAnswer+1), "got more than 1048576 bytes"},
		{"too many", manyHosts(maxHosts + 1), "line 5001: got more than 5000 hosts"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := decode([]byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) || got != nil {
				t.Errorf("decode: %s, %v, want an error with %s", texts(got), err, tc.want)
			}
		})
	}
	if got, err := decode([]byte(manyHosts(maxHosts))); err != nil || len(got) != maxHosts {
		t.Errorf("%d hosts: %d, %v", maxHosts, len(got), err)
	}
}

func manyHosts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"host\":\"d%d\"}\n", i)
	}
	return b.String()
}

// Whatever comes, decode answers with a list of different hosts that says the same when it is
// written and decoded again, or with an error.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{`{"host":"d1","slots":2,"gpus":0,"state":"running"}`, `[{"host":"me@[fe80::1]:22","state":"x"},{"host":"d1"}]`, "{\"host\":\"d1\"}\n{\"host\":\"d1\"}", "[", "d1"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := decode(text)
		if err != nil {
			if all != nil {
				t.Fatalf("%q: got hosts and the error %v", text, err)
			}
			return
		}
		var again []byte
		for n, i := range all {
			if slices.ContainsFunc(all[:n], func(o Instance) bool { return o.Host.Same(i.Host) }) {
				t.Fatalf("%q: %s twice", text, i.Host)
			}
			e := map[string]any{"host": i.Host.String(), "state": i.Word}
			for name, value := range map[string]int{"slots": i.Host.Slots, "gpus": i.Host.GPUs, "cpus": i.Host.CPUs} {
				if value != 0 {
					e[name] = max(value, 0)
				}
			}
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			again = append(append(again, line...), '\n')
		}
		if len(again) > maxAnswer {
			return // it was short for JSON
		}
		if back, err := decode(again); err != nil || !slices.Equal(back, all) {
			t.Fatalf("%q: decoded %v, again %v, %v", text, all, back, err)
		}
	})
}
