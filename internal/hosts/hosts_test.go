package hosts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseReadsEveryDocumentedForm(t *testing.T) {
	const file = `# the cluster
d1

me@10.0.0.7:2222	slots=2   # two GPUs
[fe80::1]:22
::1
  d2 slots=1` + "\r\nd3\nd4 slots=5000"
	got, err := Parse(strings.NewReader(file), "hosts")
	if err != nil {
		t.Fatal(err)
	}
	want := []Host{
		{Name: "d1", Line: 2},
		{User: "me", Name: "10.0.0.7", Port: 2222, Slots: 2, Line: 4},
		{Name: "fe80::1", Port: 22, Line: 5},
		{Name: "::1", Line: 6},
		{Name: "d2", Slots: 1, Line: 7},
		{Name: "d3", Line: 8},
		{Name: "d4", Slots: 5000, Line: 9},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse: -want +got:\n%s", diff)
	}
	for _, h := range got { // String is what ParseHost reads
		again, err := ParseHost(h.String())
		if err != nil || !again.Same(h) {
			t.Errorf("ParseHost(%q) = %+v, %v, want %+v", h.String(), again, err, h)
		}
	}
}

// What an editor does to a file's form says nothing of its hosts.
func TestTheFormOfAFileSaysNothing(t *testing.T) {
	want, err := Parse(strings.NewReader("d1\n\nme@d2:22 slots=2\n::1\n"), "hosts")
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		"byte order mark":                "\ufeffd1\n\nme@d2:22 slots=2\n::1\n",
		"Windows":                        "\ufeffd1\r\n\r\nme@d2:22 slots=2\r\n::1\r\n",
		"old Macs":                       "d1\r\rme@d2:22 slots=2\r::1\r",
		"files that were put together":   "\ufeffd1\n\n\ufeffme@d2:22 slots=2\n\ufeff\ufeff::1",
		"spaces and tabs":                " d1 \t\n\t\n\tme@d2:22\t  slots=2 \n ::1\u00a0",
		"a mark of its own line":         "\ufeff# hosts\rd1\n\ufeff\nme@d2:22 slots=2 # two\n::1",
		"capitals, dots and long zeroes": "D1.\n\nme@D2:22 slots=2\n[0:0:0:0:0:0:0:1]\n",
	} {
		got, err := Parse(strings.NewReader(file), "hosts")
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
			continue
		}
		for i, h := range got {
			if !h.Same(want[i]) || h.Slots != want[i].Slots {
				t.Errorf("%s: host %d is %+v, want %+v", name, i, h, want[i])
			}
		}
	}
}

func TestParseNamesTheBadLine(t *testing.T) {
	for _, tc := range []struct{ file, want string }{
		{"", "names no host"},
		{"# only a comment\n", "names no host"},
		{"d1\nd2:\n", `hosts line 2: port "" of "d2:"`},
		{"d1:ssh", `port "ssh"`},
		{"d1:0", `port "0"`},
		{"d1:70000", `port "70000"`},
		{"d1 slots=0", "slots=0 is no number"},
		{"d1 slots=x", "slots=x is no number"},
		{"d1 slots=-1", "slots=-1 is no number"},
		{"d1 slots=5001", "slots=5001 is no number of workers; write slots=N with N from 1 to 5000"},
		{"d1 slots=2 slots=3", "twice"},
		{"d1 cpus=2", `"cpus=2" after the host is unknown`},
		{"d1 slots=5001", "slots=5001 is no number of workers; write slots=N with N from 1 to 5000"},
		{"d\ufeff1", "is no host name"},
		{"d1\u200b", "is no host name"},
		{"d1\xff", "is no host name"},
		{"\xff\xfed\x001\x00", "is UTF-16; save it as UTF-8"},
		{"d1 d2", `"d2" after the host is unknown`},
		{"-oProxyCommand=touch", "is no host name"},
		{"a;b", "is no host name"},
		{"@d1", `user ""`},
		{"-l@d1", `user "-l"`},
		{"[::1", "no closing bracket"},
		{"[::1]22", `"22" follows the bracket`},
		{"::%$", `zone "$"`},
		{"fe80::1%", `zone ""`},
		{"[fe80::1%-l]:22", `zone "-l"`},
		{"a:b:c", "neither host:port nor an IPv6 address"},
		{strings.Repeat("x\n", 600_000), "has more than 1048576 bytes"},
	} {
		_, err := Parse(strings.NewReader(tc.file), "hosts")
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Parse(%.40q): error %v, want one with %q", tc.file, err, tc.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("::%$")
	f.Add("d1\nme@d2:22 slots=3 # x\n[::1]:2\n")
	f.Fuzz(func(t *testing.T, file string) {
		all, err := Parse(strings.NewReader(file), "hosts")
		if err != nil {
			return
		}
		for _, h := range all {
			if strings.HasPrefix(h.Name, "-") || strings.ContainsAny(h.Name+h.User, " \t\n'\"$`;&|<>()") {
				t.Errorf("Parse(%q) lets %+v through", file, h)
			}
			if again, err := ParseHost(h.String()); err != nil || !again.Same(h) {
				t.Errorf("ParseHost(%q) = %+v, %v, want %+v", h.String(), again, err, h)
			}
		}
	})
}

func names(hs []Host) string {
	var s []string
	for _, h := range hs {
		s = append(s, h.Name)
	}
	return strings.Join(s, " ")
}

func TestPlaceFollowsTheHostsFile(t *testing.T) {
	for _, tc := range []struct {
		file             string
		workers, servers int
		want             string // workers / servers, or an error
	}{
		{"a b c d e", 3, 3, "a b c / a b c"},
		{"a b", 5, 3, "a b a b a / a b a"},
		{"a", 3, 0, "a a a / "},
		{"a:2 b:1", 3, 2, "a a b / a b"},
		{"a:2 b:2", 3, 3, "a a b / a b a"},
		{"a:1 b c", 6, 1, "a b c b c b / a"},
		{"a a", 2, 2, "a a / a a"}, // a host on two lines has two seats
		{"a:2 b:1", 4, 1, "4 workers need 4 slots, the hosts have 3"},
	} {
		file := strings.NewReplacer(" ", "\n", ":", " slots=").Replace(tc.file)
		all, err := Parse(strings.NewReader(file), "hosts")
		if err != nil {
			t.Fatal(err)
		}
		p, err := Place(all, tc.workers, tc.servers)
		got := names(p.Workers) + " / " + names(p.Servers)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tc.want) {
			t.Errorf("Place(%s, %d workers, %d servers) = %s, want %s", tc.file, tc.workers, tc.servers, got, tc.want)
		}
	}
}
