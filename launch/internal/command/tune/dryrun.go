package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/study"
)

// maxDry is how many trials a dry run shows.
const maxDry = 10

// dryRun says what the first trials would be.
func dryRun(ctx context.Context, s *study.Study, fit int, out io.Writer) error {
	cfg := s.Config
	parallel := cfg.Parallel
	if parallel == tune.AsManyAsFit {
		parallel = fit
	}

	// The study has no folder, so it writes nothing, and a search that is there is left alone.
	cfg.Dir, cfg.Resume, cfg.StatusListen = "", tune.ResumeNever, ""
	one, err := tune.NewStudy(cfg)
	if err != nil {
		return err
	}
	defer one.Close()
	n := 0
	for ; n < maxDry; n++ {
		t, err := one.TryAsk()

		// A suggester may want results before it proposes more.
		if errors.Is(err, tune.ErrDone) || errors.Is(err, tune.ErrWait) {
			break
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", t.Name(), commandText(s, t))
	}
	if n == maxDry {
		fmt.Fprintln(out, "... and so on; later trials may depend on results")
	}
	fmt.Fprintf(out, "%d at once (%d fit), in %s; no trial was run\n", parallel, fit, s.Config.Dir)
	return ctx.Err()
}

// commandText is the command of a trial as one would type it.
func commandText(s *study.Study, t tune.Trial) string {
	words := s.Command(tune.Attempt{Trial: t.Number, Params: t.Params, Seed: t.Seed, Checkpoint: "checkpoint"})
	if len(words) == 3 && words[0] == "/bin/sh" && words[1] == "-c" {
		return strings.TrimSpace(words[2])
	}
	return ssh.Quote(words)
}
