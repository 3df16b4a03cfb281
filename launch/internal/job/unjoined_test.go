package job

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// Workers that do not join are told of: at once, where others wait for them in vain, or once, where
// each trains by itself.
func TestWorkersThatDoNotJoinAreToldOf(t *testing.T) {
	const none, notOne = "no worker has joined the job for 15s; " + howToJoin, "ended with exit 0 without joining the job; " + howToJoin
	for _, tc := range []struct {
		name   string
		work   [2]time.Duration // of each worker, which then ends with 0
		joins  func(say func(rank int, here bool))
		code   int
		took   time.Duration
		log    string // all warnings and errors
		reason string
	}{
		{"each by itself", [2]time.Duration{time.Minute, time.Minute}, nil, 0, time.Minute + 3*time.Second, none, ""},
		{"each by itself, one is done soon", [2]time.Duration{time.Minute, 5 * time.Second}, nil, 0, time.Minute + 3*time.Second, "worker 1 on localhost " + notOne, ""},
		{"all are done soon", [2]time.Duration{time.Second, time.Second}, nil, 0, 4 * time.Second, "all workers are done, and none has joined the job; " + howToJoin, ""},
		{"one waits", [2]time.Duration{forEver, 5 * time.Second}, func(say func(int, bool)) { time.Sleep(time.Second); say(0, true) }, 1, 5*time.Second + joinedReportTime,
			"worker 1 on localhost ended with exit 0 without joining, and the others wait: every worker must call kvstore.Create; stopping them",
			"launch: the job failed: worker 1 on localhost ended with exit 0 without joining, and the others wait: every worker must call kvstore.Create"},
		{"one comes later, and waits", [2]time.Duration{forEver, time.Second}, func(say func(int, bool)) { time.Sleep(10 * time.Second); say(0, true) }, 1, 10 * time.Second,
			"worker 1 on localhost " + notOne + "|worker 1 on localhost ended with exit 0 without joining, and the others wait: every worker must call kvstore.Create; stopping them",
			"launch: the job failed: worker 1 on localhost ended with exit 0 without joining, and the others wait: every worker must call kvstore.Create"},
		{"one goes again", [2]time.Duration{forEver, 5 * time.Second}, func(say func(int, bool)) { say(0, true); say(1, true); time.Sleep(5 * time.Second); say(1, false) }, 1, 5*time.Second + joinedReportTime,
			"worker 1 on localhost ended with exit 0 without joining, and the others wait: every worker must call kvstore.Create; stopping them",
			"launch: the job failed: worker 1 on localhost ended with exit 0 without joining, and the others wait: every worker must call kvstore.Create"},
		{"one is heard of late", [2]time.Duration{time.Minute, 5 * time.Second}, func(say func(int, bool)) { say(0, true); time.Sleep(6 * time.Second); say(1, true) }, 0, time.Minute + 3*time.Second, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s setup
				var log bytes.Buffer
				s.forming, s.logger = true, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == "event" {
						return slog.Attr{}
					}
					return a
				}}))
				begin := time.Now()
				res, err := s.run(t, func(p *proc) {
					switch p.name {
					case "worker 0":
						p.after(tc.work[0], 0)
					case "worker 1":
						p.after(tc.work[1], 0)
					case "scheduler":
						io.WriteString(p.out.Report, "127.0.0.1:4711\n"+presenceLine("server", 0, 2, true)+"\n")
						if tc.joins != nil {
							tc.joins(func(rank int, here bool) {
								io.WriteString(p.out.Report, presenceLine("worker", rank, uint32(3+rank), here)+"\n")
							})
						}
						fallthrough
					default:
						p.after(forEver, 0)
					}
				})
				if took := time.Since(begin); err != nil || res.Code != tc.code || took != tc.took {
					t.Errorf("Run: code %d, %v, after %s; want %d after %s", res.Code, err, took, tc.code, tc.took)
				}
				got := strings.ReplaceAll(strings.TrimSpace(log.String()), "\n", "|")
				if got = strings.NewReplacer(`msg="`, "", `"`, "").Replace(got); got != tc.log {
					t.Errorf("log %q, want %q", got, tc.log)
				}
				last := s.out.String()[strings.LastIndex(strings.TrimSpace(s.out.String()), "\n")+1:]
				if last = strings.TrimSpace(last); last != tc.reason && (tc.reason != "" || strings.HasPrefix(last, "launch: ")) {
					t.Errorf("last line %q, want %q", last, tc.reason)
				}
			})
		})
	}
}

// A single worker needs no job.
func TestASingleWorkerNeedNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		var log bytes.Buffer
		s.forming, s.logger, s.place = true, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), []hosts.Host{hosts.Local}
		if res, err := s.run(t, func(p *proc) {
			if p.name == "scheduler" {
				io.WriteString(p.out.Report, "127.0.0.1:4711\n")
			}
			if p.name == "worker 0" {
				p.after(time.Minute, 0)
			} else {
				p.after(forEver, 0)
			}
		}); err != nil || res.Code != 0 || log.Len() > 0 {
			t.Errorf("Run: code %d, %v, log %q; want 0 and no warning", res.Code, err, &log)
		}
	})
}
