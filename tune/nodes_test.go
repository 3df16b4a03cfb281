package tune

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestHostsFilesAreRead(t *testing.T) {
	got, err := parseNodes("hosts", "d1\n\n# all\nme@d2:22 slots=4 gpus=2 # big\n[::1]:2 gpus=0\n")
	want := []nodeLine{{"d1", -1, -1}, {"me@d2:22", 4, 2}, {"[::1]:2", -1, 0}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, text := range []string{"\ufeffd1\r\n\r\n# all\r\nme@d2:22 slots=4 gpus=2 \t# big\r\n[::1]:2 gpus=0", "\ufeff# all\rd1\r\ufeffme@d2:22 slots=4\tgpus=2\r[::1]:2 gpus=0 \r"} {
		if got, err := parseNodes("hosts", text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, tc := range []struct{ file, want string }{
		{"-oProxyCommand=x", "is no host"},
		{"d1;reboot", "is no host"},
		{"d1\nd1", "line 2: host d1 is there twice"},
		{"d1 slots=x", "write host, slots=N, gpus=N"},
		{"d1 slots=-1", "write host"},
		{"d1 cores=4", "write host"},
	} {
		if _, err := parseNodes("hosts", tc.file); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got %v, want an error with %q", tc.file, err, tc.want)
		}
	}
}

func TestLinesWithMetricsAreTold(t *testing.T) {
	for _, tc := range []struct {
		line    string
		step    int
		metrics map[string]float64
	}{
		{"accuracy=0.5 step=3", 3, map[string]float64{"accuracy": 0.5}},
		{"step=0, loss=-1e-3, top5=+Inf", 0, map[string]float64{"loss": -1e-3, "top5": math.Inf(1)}},
		{"step=3", 0, nil},
		{"accuracy=0.5", 0, nil},
		{"epoch 3 accuracy=0.5 step=3", 0, nil},
		{"accuracy=0.5 step=1.5", 0, nil},
		{"accuracy=0.5 step=-1", 0, nil},
		{"accuracy=0.5 step=1 step=2", 0, nil},
		{"accuracy=good step=1", 0, nil},
		{"=1 step=1", 0, nil},
		{"", 0, nil},
	} {
		step, metrics, ok := parseMetrics(tc.line)
		if ok != (tc.metrics != nil) || ok && (step != tc.step || !reflect.DeepEqual(metrics, tc.metrics)) {
			t.Errorf("%q: got step %d, %v, %v, want %d, %v", tc.line, step, metrics, ok, tc.step, tc.metrics)
		}
	}
}

func FuzzHostsFile(f *testing.F) {
	f.Add("d1 slots=2\n[fe80::1%eth0]:22 gpus=1 # x")
	f.Fuzz(func(t *testing.T, text string) {
		nodes, err := parseNodes("hosts", text)
		if err != nil {
			return
		}
		for _, n := range nodes {
			if n.host == "" || n.host[0] == '-' || strings.ContainsAny(n.host, " '\"$`;&|<>()") {
				t.Errorf("%q lets %+v through", text, n)
			}
		}
	})
}

func FuzzMetricsLine(f *testing.F) {
	f.Add("accuracy=0.5 step=3")
	f.Fuzz(func(t *testing.T, line string) {
		if step, metrics, ok := parseMetrics(line); ok && (step < 0 || len(metrics) == 0) {
			t.Errorf("%q gives step %d and %v", line, step, metrics)
		}
	})
}

func TestLongOutputIsTakenInPieces(t *testing.T) {
	var lines []int
	w := &lineWriter{to: func(line []byte) { lines = append(lines, len(line)) }}
	for range 10 {
		_, _ = w.Write(bytes.Repeat([]byte{'x'}, maxOutputLine/4))
	}
	_, _ = w.Write([]byte("\r\nab\n\n"))
	if want := []int{maxOutputLine, maxOutputLine, maxOutputLine / 2, 2, 0}; !reflect.DeepEqual(lines, want) {
		t.Errorf("lines have %v bytes, want %v", lines, want)
	}
}

// A stand-in for ssh runs the command here, and writes down for which host.
func standInForSSH(t *testing.T) (client, asked string) {
	t.Helper()
	dir := t.TempDir()
	client, asked = filepath.Join(dir, "ssh"), filepath.Join(dir, "asked")
	script := "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\necho \"$2\" >> " + asked + "\n[ \"$2\" = gone ] && { echo no route >&2; exit 255; }\ncd " + dir + " && exec sh -c \"$3\"\n"
	if err := os.WriteFile(client, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return client, asked
}

func TestHostsAreAskedWhatTheyHaveAndGetFiles(t *testing.T) {
	client, asked := standInForSSH(t)
	dir := t.TempDir()
	hosts := filepath.Join(dir, "hosts")
	if err := os.WriteFile(hosts, []byte("d1\ngone\nd2 slots=3 gpus=1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	j := &Jobs{HostFile: hosts, Address: "127.0.0.1", SSH: client, Folder: filepath.Join(dir, "it's there")}
	if err := j.Fits(Resources{Hosts: 2, GPUs: 1}); err == nil || !strings.Contains(err.Error(), "d1 has ") || !strings.Contains(err.Error(), "d2 has 3 CPUs and 1 GPU") || strings.Contains(err.Error(), "gone") {
		t.Errorf("got %v, want what d1 and d2 have", err)
	}
	table, err := j.Nodes()
	if err != nil || !strings.Contains(table.String(), "d2") {
		t.Errorf("the table is\n%s%v", table.String(), err)
	}
	file := filepath.Join(dir, "data.txt")
	if err := os.WriteFile(file, []byte("42"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := j.UploadFiles(context.Background(), file); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(j.Folder, "data.txt")); string(got) != "42" || err != nil {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if got, _ := os.ReadFile(asked); strings.Count(string(got), "d2") != 1 {
		t.Errorf("asked were\n%s\nwant d2 for the file alone", got)
	}
	if err := j.Add(context.Background(), "d3 slots=1 gpus=0"); err != nil {
		t.Error(err)
	}
	if err := j.Remove("d1"); err != nil {
		t.Error(err)
	}
	if err := j.Fits(Resources{Hosts: 3}); err == nil {
		t.Error("three nodes fit into d2 and d3")
	}
	if err := (&Jobs{HostFile: hosts}).Fits(Resources{}); err == nil || !strings.Contains(err.Error(), "Jobs.Address") {
		t.Errorf("without an address: %v", err)
	}
}
