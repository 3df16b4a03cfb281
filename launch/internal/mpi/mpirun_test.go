package mpi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

func TestHostsAreInTheOrderOfTheRanks(t *testing.T) {
	for _, tc := range []struct{ text, want, err string }{
		{"paragon-host 0 1 n1\n", "n1", ""},
		{"Warning: n9 is slow\nparagon-host 2 3 n10\nparagon-host 0 3 n2.example.com\n  paragon-host 1 3 n1  \nand more", "n2.example.com n1 n10", ""},
		{"paragon-host 0 2 n1\nparagon-host 1 2 n1\n", "", "mpirun put ranks 0 and 1 on host n1, want one on each host"},
		{"paragon-host 1 2 n1\nparagon-host 1 2 n2\n", "", "got \"paragon-host 1 2 n2\": rank 1 is already on host n1"},
		{"paragon-host 0 2 n1\nmpirun: lost n2\n", "", "before all ranks reported their hosts; it said:\n  mpirun: lost n2"},
		{"", "", "before all ranks reported their hosts"},
		{"paragon-host 0 1\n", "", "want a rank, the number of ranks and a name"},
		{"paragon-host x 1 n1\n", "", "want a rank, the number of ranks and a name"},
		{"paragon-host 1 1 n1\n", "", "want a rank, the number of ranks and a name"},
		{"paragon-host -1 1 n1\n", "", "want a rank, the number of ranks and a name"},
		{"paragon-host 0 1000000000 n1\n", "", "want a rank, the number of ranks and a name"},
		{"paragon-host 0 2 n1\nparagon-host 1 3 n2\n", "", "want a rank, the number of ranks and a name"},
		{"paragon-host 0 1 n!1\n", "", "rank 0: "},
		{strings.Repeat("x", 1<<17), "", "token too long"},
	} {
		got, err := readHosts(strings.NewReader(tc.text))
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%.60q: got %v, want %q", tc.text, err, tc.err)
			}
			continue
		}
		var names []string
		for _, h := range got {
			names = append(names, h.Name)
		}
		if err != nil || strings.Join(names, " ") != tc.want {
			t.Errorf("%.60q: got %q, %v, want %q", tc.text, names, err, tc.want)
		}
	}
}

func FuzzReadHosts(f *testing.F) {
	f.Add("paragon-host 1 2 n1\nparagon-host 0 2 n2\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := readHosts(strings.NewReader(text))
		if err == nil && len(all) == 0 {
			t.Error("no hosts, and no error")
		}
		for _, h := range all {
			if h == (hosts.Host{}) {
				t.Errorf("a rank without a host: %v", all)
			}
		}
	})
}

// The next mpirun shares the folder of the session with the one that was asked, which removes it at
// its end.
func TestHostsWaitsForItsMpirun(t *testing.T) {
	dir := t.TempDir()
	ended := filepath.Join(dir, "ended")
	mpirun := filepath.Join(dir, "mpirun")
	script := "#!/bin/sh\necho " + hostLine + " 0 1 n1\ni=0; while [ $i -lt 20000 ]; do i=$((i+1)); done\n: >" + ended + "\n"
	if err := os.WriteFile(mpirun, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := Hosts(t.Context(), []string{mpirun})
	if err != nil || len(all) != 1 || all[0].Name != "n1" {
		t.Fatalf("hosts %v, %v; want n1", all, err)
	}
	if _, err := os.Stat(ended); err != nil {
		t.Errorf("Hosts returned before mpirun had ended: %v", err)
	}
}
