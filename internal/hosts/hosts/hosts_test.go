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
  d2 slots=1` + "\r\nd3\nd4 slots=5000\nd5 cpus=8 gpus=2 slots=3\nd6 gpus=0"
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
		{Name: "d5", Slots: 3, GPUs: 2, CPUs: 8, Line: 10},
		{Name: "d6", GPUs: NoGPUs, Line: 11},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse: -want +got:\n%s", diff)
	}
	for _, h := range got { // String is what ParseHost reads
		again, err := ParseHost(h.String())
		if err != nil || !again.Same(h) {
			t.Errorf("ParseHost(%q) = %+v, %v, want %+v", h.String(), again, err, h)
		}

		// ParseLine reads what Entry writes.
		again, err = ParseLine(strings.Fields(h.Entry()))
		again.Line = h.Line
		if err != nil || again != h {
			t.Errorf("ParseLine(%q) = %+v, %v, want %+v", h.Entry(), again, err, h)
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

func TestMergeAddsUpTheSlotsOfAHost(t *testing.T) {
	all, err := Parse(strings.NewReader("d1 slots=2 gpus=1\nd2\nD1. slots=3 gpus=1\nd2 slots=4\nd1:22 slots=1"), "hosts")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range Merge(all) {
		got = append(got, h.Entry())
	}
	if want := []string{"d1 slots=5 gpus=1", "d2", "d1:22 slots=1"}; !cmp.Equal(got, want) {
		t.Errorf("Merge: got %q, want %q", got, want)
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
		{"d1 slots=0", "hosts line 1: d1: got slots=0, want a number of workers from 1 to 5000"},
		{"d1 slots=x", "got slots=x, want a number"},
		{"d1 slots=-1", "got slots=-1, want a number"},
		{"d1 slots=5001", "got slots=5001, want a number of workers from 1 to 5000"},
		{"d1 slots=2 slots=3", "got slots= twice"},
		{"d1\nd2 gpus=", "hosts line 2: d2: got gpus=, want a number of GPUs from 0 to 1024"},
		{"d1 gpus=-1", "got gpus=-1, want"},
		{"d1 gpus=0 gpus=0", "got gpus= twice"},
		{"d1 gpus=1025", "want a number of GPUs from 0 to 1024"},
		{"d1 cpus=0", "got cpus=0, want a number of processors from 1 to 65536"},
		{"d1 cpus=1 cpus=1", "got cpus= twice"},
		{"d1 cores=2", `d1: got "cores=2", want slots=N, gpus=N or cpus=N`},
		{"d1 gpus=1\nd2\nD1 gpus=2", "hosts line 3: D1: got other gpus= or cpus= than on line 1"},
		{"d1 slots", `got "slots", want slots=N`},
		{"d\ufeff1", "is not a host name"},
		{"d1\u200b", "is not a host name"},
		{"d1\xff", "is not a host name"},
		{"\xff\xfed\x001\x00", "is UTF-16; save it as UTF-8"},
		{"d1 d2", `d1: got "d2", want slots=N, gpus=N or cpus=N`},
		{"-oProxyCommand=touch", "is not a host name"},
		{"a;b", "is not a host name"},
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
	f.Add("d1\nme@d2:22 slots=3 cpus=4 # x\n[::1]:2 gpus=0\n")
	f.Fuzz(func(t *testing.T, file string) {
		all, err := Parse(strings.NewReader(file), "hosts")
		if err != nil {
			return
		}
		for _, h := range all {
			if strings.HasPrefix(h.Name, "-") || strings.ContainsAny(h.Name+h.User, " \t\n'\"$`;&|<>()") {
				t.Errorf("Parse(%q) lets %+v through", file, h)
			}
			again, err := ParseLine(strings.Fields(h.Entry()))
			if again.Line, again.Name = h.Line, h.Name; err != nil || again != h {
				t.Errorf("ParseLine(%q) = %+v, %v, want %+v", h.Entry(), again, err, h)
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
		{"a a", 2, 2, "a a / a a"}, // two lines, two seats
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
