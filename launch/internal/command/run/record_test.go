package run

import (
	"log/slog"
	"os"
	"testing"

	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/job"
)

// launch ctl finds a job by the folder in which it was started, for as long as it runs.
func TestAJobIsFoundWhileItRuns(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	r := registry{command: []string{"./train"}, folder: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	done := r.record(job.Where{Job: "3f2a9c0d", Scheduler: "127.0.0.1:7", Credentials: []string{"PARAGON_SECRET=x"}})
	find := func() (record.Record, error) {
		dir, err := record.Dir(os.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		return record.FindToChange(dir, "", r.folder)
	}
	if got, err := find(); err != nil || got.Job != "3f2a9c0d" || got.Scheduler != "127.0.0.1:7" {
		t.Errorf("got %+v, %v, want the job", got, err)
	}
	done()
	if got, err := find(); err == nil {
		t.Errorf("got %+v after the job's end, want none", got)
	}
}
