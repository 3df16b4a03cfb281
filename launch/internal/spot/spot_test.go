package spot

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/launch/internal/spot/spottest"
)

// A carrier hands requests to a handler without a network, so that time can be fake.
type carrier struct{ http.Handler }

func (c carrier) RoundTrip(q *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, q)
	if err := q.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// watch runs Watch of a service on fake time, lets script act on it, and returns what was told,
// each with the time since the beginning.
func watch(t *testing.T, cfg Config, s http.Handler, script func()) (notices []string, log string) {
	t.Helper()
	var b bytes.Buffer
	cfg.Logger, cfg.transport = slog.New(slog.NewTextHandler(&b, nil)), carrier{s}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	begin := time.Now()
	go func() {
		defer close(ended)
		Watch(ctx, cfg, func(n agent.Notice) {
			text := fmt.Sprintf("%s %s %s", time.Since(begin), n.Code, n.Left)
			if n.Withdrawn {
				text += " withdrawn"
			}
			notices = append(notices, text)
		})
	}()
	script()
	cancel()
	<-ended
	return notices, b.String()
}

func TestNoticesAreTold(t *testing.T) {
	aws := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(time.RFC3339) }
	azure := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(http.TimeFormat) }
	for _, tc := range []struct {
		name, provider string
		do             func(s *spottest.Service)
		want           []string
	}{
		{"nothing", AWS, func(*spottest.Service) { time.Sleep(time.Minute) }, nil},
		{"nothing", GCP, func(*spottest.Service) { time.Sleep(time.Minute) }, nil},
		{"nothing", Azure, func(*spottest.Service) { time.Sleep(time.Minute) }, nil},
		{"spot", AWS, func(s *spottest.Service) { s.Announce(spottest.Preempt, aws(100*time.Second)) }, []string{"10s preempted 1m39s"}},
		{"a clock that is wrong", AWS, func(s *spottest.Service) { s.Announce(spottest.Preempt, "2017-09-18T08:22:00Z") }, []string{"10s preempted 1m59s"}},
		{"no time", AWS, func(s *spottest.Service) { s.Announce(spottest.Preempt, "soon") }, []string{"10s preempted 1m59s"}},
		{"spot", GCP, func(s *spottest.Service) { s.Announce(spottest.Preempt, "") }, []string{"10s preempted 29s"}},
		{"spot", Azure, func(s *spottest.Service) { s.Announce(spottest.Preempt, azure(40*time.Second)) }, []string{"10s preempted 39s"}},
		{"has begun", Azure, func(s *spottest.Service) { s.Announce(spottest.Preempt, "") }, []string{"10s preempted 1s"}},
		{"rebalance, then spot, then neither", AWS, func(s *spottest.Service) {
			s.Announce(spottest.Rebalance, "")
			time.Sleep(20 * time.Second)
			s.Announce(spottest.Preempt, aws(100*time.Second))
			time.Sleep(20 * time.Second)
			s.Announce(spottest.Rebalance, "")
			time.Sleep(20 * time.Second)
			s.Announce(spottest.Nothing, "")
		}, []string{"10s risk 0s", "30s preempted 1m39s", "50s preempted 0s withdrawn", "50s risk 0s", "1m10s risk 0s withdrawn"}},
		{"maintenance, then spot", GCP, func(s *spottest.Service) {
			s.Announce(spottest.Maintenance, "")
			time.Sleep(20 * time.Second)
			s.Announce(spottest.Preempt, "")
			time.Sleep(20 * time.Second)
			s.Announce(spottest.Nothing, "")
			time.Sleep(20 * time.Second)
			s.Announce(spottest.Preempt, "")
		}, []string{"10s maintenance 59s", "30s preempted 29s", "50s preempted 0s withdrawn", "1m10s preempted 29s"}},
		{"maintenance, withdrawn", Azure, func(s *spottest.Service) {
			s.Announce(spottest.Maintenance, azure(15*time.Minute))
			time.Sleep(time.Minute)
			s.Announce(spottest.Nothing, "")
		}, []string{"10s maintenance 14m59s", "1m10s maintenance 0s withdrawn"}},
		{"a live migration", GCP, func(s *spottest.Service) { s.Announce(spottest.Harmless, "") }, nil},
		{"another machine's", Azure, func(s *spottest.Service) { s.Announce(spottest.Harmless, azure(time.Minute)) }, nil},
	} {
		t.Run(tc.provider+" "+tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := spottest.New(tc.provider)
				got, log := watch(t, Config{Provider: tc.provider}, s, func() {
					time.Sleep(10*time.Second - time.Millisecond)
					tc.do(s)
					time.Sleep(time.Minute)
				})

				// The time is that of a look, which comes a millisecond after the change.
				for i := range got {
					got[i] = strings.Replace(got[i], ".001s", "s", 1)
				}
				if !slices.Equal(got, tc.want) || log != "" {
					t.Errorf("told %q, want %q; log:\n%s", got, tc.want, log)
				}
			})
		})
	}
}

// An action that is not known is logged once, and nobody leaves for it: it may be harmless. What is
// known besides counts.
func TestAnActionThatIsNotKnownIsLoggedAndNotObeyed(t *testing.T) {
	for provider, want := range map[string]string{AWS: `action \"polish\"`, Azure: `event \"Polish\"`} {
		t.Run(provider, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := spottest.New(provider)
				got, log := watch(t, Config{Provider: provider}, s, func() {
					s.Announce(spottest.Unknown, "")
					time.Sleep(time.Minute)
					s.Announce(spottest.Preempt, "")
					time.Sleep(10 * time.Second)
				})
				if len(got) != 1 || !strings.Contains(got[0], " preempted ") {
					t.Errorf("told %q, want the known notice alone", got)
				}
				if strings.Count(log, want) != 1 || !strings.Contains(log, "is not known here, and nothing is done about it") {
					t.Errorf("want %s once in the log:\n%s", want, log)
				}
			})
		})
	}
}

// A service that fails is told of, once a minute, and asked on; what it announced last stays, and
// is not told again.
func TestAServiceThatFailsIsAskedAgain(t *testing.T) {
	for _, provider := range []string{AWS, GCP, Azure} {
		for _, fault := range []string{spottest.Hangs, spottest.Fails, spottest.Garbage, spottest.Huge, spottest.Redirect} {
			t.Run(provider+" "+fault, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := spottest.New(provider)
					s.Fault(fault)
					got, log := watch(t, Config{Provider: provider}, s, func() {
						time.Sleep(30 * time.Second)
						s.Fault("")
						s.Announce(spottest.Preempt, "")
						time.Sleep(10 * time.Second)
						s.Fault(fault)
						time.Sleep(90 * time.Second)
						s.Fault("")
						time.Sleep(10 * time.Second)
					})
					if len(got) != 1 || !strings.Contains(got[0], " preempted ") {
						t.Errorf("told %q, want one notice", got)
					}
					if warned, again := strings.Count(log, "notices may be missed"), strings.Count(log, provider+" answers"); warned != 3 || again != 2 {
						t.Errorf("%d warnings and %d times that it answers, want 3 and 2:\n%s", warned, again, log)
					}
				})
			})
		}
	}
}

// One token of AWS is used until it is refused, or half of its life is over.
func TestTokensAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spottest.New(AWS)
		a := &aws{client: newClient(Config{transport: carrier{s}})}
		for i, wait := range []time.Duration{0, time.Second, awsTokenLife/2 - 2*time.Second, 2 * time.Second, time.Second} {
			time.Sleep(wait)
			if i == 4 {
				s.Fault(spottest.Expired)
			}
			if _, err := a.look(t.Context()); err != nil {
				t.Error(err)
			}
			if n, want := s.Asked(awsToken), []int{1, 1, 1, 2, 3}[i]; n != want {
				t.Errorf("look %d: %d tokens were asked for, want %d", i, n, want)
			}
		}
	})
}

// Whose machine it is, is what the firmware says, or whose service answers.
func TestTheProviderIsFound(t *testing.T) {
	files := func(t *testing.T, text map[string]string) string {
		dir := t.TempDir()
		for name, s := range text {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(s+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for _, tc := range []struct {
		name    string
		dmi     map[string]string
		service http.Handler
		want    string
		asked   bool
	}{
		{"EC2", map[string]string{"sys_vendor": "Amazon EC2"}, http.NotFoundHandler(), AWS, false},
		{"EC2 of Xen", map[string]string{"sys_vendor": "Xen", "bios_version": "4.11.amazon"}, http.NotFoundHandler(), AWS, false},
		{"Compute Engine", map[string]string{"sys_vendor": "Google", "product_name": "Google Compute Engine"}, http.NotFoundHandler(), GCP, false},
		{"Azure", map[string]string{"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": azureTag}, http.NotFoundHandler(), Azure, false},
		{"Hyper-V", map[string]string{"sys_vendor": "Microsoft Corporation"}, http.NotFoundHandler(), Off, true},
		{"no firmware, AWS", nil, spottest.New(AWS), AWS, true},
		{"no firmware, GCP", nil, spottest.New(GCP), GCP, true},
		{"no firmware, Azure", nil, spottest.New(Azure), Azure, true},
		{"a service that says yes to all", nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<p>ok</p>") }), Off, true},
		{"a service that hangs", nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), Off, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := files(t, tc.dmi)
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Bool
				cfg := Config{DMI: dir, transport: carrier{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked.Store(true)
					tc.service.ServeHTTP(w, r)
				})}}
				begin := time.Now()
				if got := detect(t.Context(), cfg, newClient(cfg)); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				if took := time.Since(begin); took > probeTime {
					t.Errorf("it took %s, want at most %s", took, probeTime)
				}
				synctest.Wait()
				if asked.Load() != tc.asked {
					t.Errorf("the network was asked: %t, want %t", asked.Load(), tc.asked)
				}
			})
		})
	}
}

// Nothing is sent where nobody asked for it.
func TestNothingIsAskedUnlessWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, provider := range []string{"", Off, "oracle"} {
			_, log := watch(t, Config{Provider: provider}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				t.Errorf("provider %q: the metadata service was asked", provider)
			}), func() { time.Sleep(time.Minute) })
			if unknown := strings.Contains(log, "want auto, aws, gcp, azure or off"); unknown != (provider == "oracle") {
				t.Errorf("provider %q: log:\n%s", provider, log)
			}
		}
	})
}

// Over the network, too: no proxy is asked, no redirect followed, and a long answer is cut.
func TestAServiceOverTheNetwork(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:1")
	s := spottest.New(GCP)
	server := httptest.NewServer(s)
	defer server.Close()
	c := &gcp{client: newClient(Config{URL: server.URL + "/"})}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, tc := range []struct{ fault, want string }{
		{"", ""}, {spottest.Redirect, "status 302 Found"}, {spottest.Garbage, "no header"}, {spottest.Huge, "more than 65536 bytes"}, {spottest.Fails, "status 500 Internal Server Error"},
	} {
		s.Fault(tc.fault)
		if _, err := c.look(ctx); tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.fault, err, tc.want)
		}
	}
}

func TestURLsAreChecked(t *testing.T) {
	for url, ok := range map[string]bool{"": true, "http://127.0.0.1:80": true, "https://x": false, "127.0.0.1:80": false, "http://": false, "ftp://x": false} {
		if err := (Config{URL: url}).Check(); (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Whatever a service answers, it is nothing, an event, or an error.
func FuzzAnswers(f *testing.F) {
	for _, text := range []string{"", "TRUE", "NONE", `{"action": "stop", "time": "2017-09-18T08:22:00Z"}`, `{"Events": [{"EventType": "Preempt", "Resources": ["x"], "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT"}]}`, `{"Events": null}`, "null", "[]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		transport := carrier{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(flavor, google)
			fmt.Fprint(w, text)
		})}
		c := newClient(Config{transport: transport})
		for _, s := range []service{&aws{client: c, token: "t", renewAt: time.Now().Add(time.Hour)}, &gcp{client: c}, &azure{client: c, name: "x"}} {
			o, err := s.look(t.Context())
			if err != nil && o != (outlook{}) || len(o.text) > 1000 {
				t.Errorf("%T: %+v and %v", s, o, err)
			}
		}
	})
}
