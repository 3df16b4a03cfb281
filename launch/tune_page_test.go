package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// searchState is what the test reads of a search's page.
type searchState struct {
	Name   string
	Metric string
	States []string
	Words  []string
	Trials struct {
		Count     int
		State     string
		Rule      []int
		StopStep  []any `json:"stop_step"`
		StopBound []any `json:"stop_bound"`
		Params    [][]any
	}
	Hosts []struct {
		Name      string
		SlotsUsed int `json:"slots_used"`
		CPUs      int `json:"cpus"`
	}
}

// A search of processes shows its trials on its page while it runs: which were stopped, by which
// rule, against which bound.
func TestTuneServesAPage(t *testing.T) {
	t.Parallel()
	dir := counting(t, "0", "")
	path := filepath.Join(dir, "study.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	falling := strings.NewReplacer("[1, 2, 3, 4, 5, 6]", "[6, 5, 4, 3, 2, 1]", // so that later trials are pruned
		"echo hello from {x};", "[ {x} -gt 3 ] || until [ -e go ]; do sleep 0.02; done;").Replace(string(text))
	if err := os.WriteFile(path, []byte(falling), 0o666); err != nil {
		t.Fatal(err)
	}
	l := startLauncher(t, dir, "tune", "study.yaml")
	l.await(t, "trial-000000: started")
	l.await(t, "(works once)") // another pipe
	found := regexp.MustCompile(`(http://127\.0\.0\.1:\d+/)\?token=[A-Za-z0-9_-]+`).FindStringSubmatch(l.stderr.String())
	if found == nil {
		t.Fatalf("the log has no URL of the page:\n%s", l.stderr.String())
	}
	base := found[1]
	if code, body := get(t, http.DefaultClient, base+"api/search"); code == http.StatusOK {
		t.Errorf("without a session: got %d %.100s", code, body)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	if code, body := get(t, client, found[0]); code != http.StatusOK || !strings.Contains(body, "<title>") {
		t.Fatalf("the page: got %d %.200s", code, body)
	}
	if u, _ := url.Parse(base); len(jar.Cookies(u)) == 0 {
		t.Fatal("the page gave no cookie")
	}
	var s searchState
	n := -1 // a trial that was pruned
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		code, body := get(t, client, base+"api/search")
		if code != http.StatusOK {
			t.Fatalf("api/search: got %d %.200s", code, body)
		}
		s = searchState{}
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			t.Fatal(err)
		}
		// The page learns why a trial was pruned when that is on the disk, which may be
		// after it shows that it was.
		if n = strings.Index(s.Trials.State, "4"); n >= 0 && s.Trials.StopStep[n] != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no trial was pruned: %s", body)
		}
	}
	if s.Name != "count" || s.Metric != "value" || s.States[4] != "pruned" || len(s.Trials.Params) != 1 {
		t.Errorf("the page has %+v", s)
	}
	if rule := s.Trials.Rule[n]; rule < 0 || !strings.HasPrefix(s.Words[rule], "asha") || s.Trials.StopStep[n] == nil || s.Trials.StopBound[n] == nil {
		t.Errorf("trial %d was pruned by rule %d of %q at step %v against %v", n, rule, s.Words, s.Trials.StopStep[n], s.Trials.StopBound[n])
	}
	if len(s.Hosts) != 1 || s.Hosts[0].Name != "local" || s.Hosts[0].CPUs == 0 {
		t.Errorf("the hosts are %+v", s.Hosts)
	}
	if code, body := get(t, client, base+"api/search/trial?id=0"); code != http.StatusOK || !strings.Contains(body, `"metric":"value"`) || !strings.Contains(body, `"kind":"start"`) {
		t.Errorf("trial 0: got %d %.300s", code, body)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if code := l.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestTuneRefusesAPageForStrangers(t *testing.T) {
	t.Parallel()
	dir := counting(t, "0", "")
	for addr, want := range map[string]string{"0.0.0.0:0": `StatusListen "0\.0\.0\.0:0": page: .*TLS`, "nowhere": `StatusListen "nowhere": page: listen`} {
		_, errs := tuneIn(t, dir, 1, "--status-listen", addr, "study.yaml")
		wantText(t, addr, errs, want)
	}
	_, errs := tuneIn(t, dir, 0, "--status-listen", "off", "study.yaml")
	if strings.Contains(errs, "live page") {
		t.Errorf("with --status-listen off there is a page:\n%s", errs)
	}
}

func get(t *testing.T, client *http.Client, address string) (int, string) {
	t.Helper()
	answer, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}
