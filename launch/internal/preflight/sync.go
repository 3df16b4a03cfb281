package preflight

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/paragon-train/paragon/internal/files/scratch"
	"github.com/paragon-train/paragon/internal/hosts/agent"
)

// cleanTime bounds the removal of what a check put on the hosts.
const cleanTime = 10 * time.Second

// trySync copies a small file to every host, and removes it again with the folders that were made.
// Hosts may share the folder: each has a file of its own, and no folder goes before all files have.
func trySync(ctx context.Context, cfg Config, reports []*Report) {
	err := copyAll(ctx, cfg, reports)
	for _, r := range reports {
		if err != nil && r.copies {
			r.problem("%v", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	// Of folders inside each other several hosts may have made one each: then it takes more
	// than one round.
	for left := count(reports); left > 0; {
		each(reports, func(r *Report) {
			if len(r.made) == 0 {
				return
			}
			if a, err := r.machine.Ask(ctx, agent.Question{Remove: r.made}); err == nil {
				r.made = a.Left
			}
		})
		before := left
		if left = count(reports); left == before {
			// Somebody else has put something there, which stays.
			return
		}
	}
}

// count counts the folders that were made on the hosts and are still there.
func count(reports []*Report) (folders int) {
	for _, r := range reports {
		folders += len(r.made)
	}
	return folders
}

// copyAll returns why no file could be copied at all.
func copyAll(ctx context.Context, cfg Config, reports []*Report) error {
	folder, err := scratch.New("check")
	if err != nil {
		return fmt.Errorf("make a file to copy: %w", err)
	}
	defer folder.Remove()

	// The names are random, so that two checks at once do not see each other's files, and no
	// file of the user's has one.
	mark := rand.Text()
	files := make(map[*Report]string)
	for i, r := range reports {
		files[r] = filepath.Join(folder.Path, fmt.Sprintf(".paragon-check-%s-%d", mark, i))
		if err := os.WriteFile(files[r], []byte(mark+"\n"), 0o600); err != nil {
			return fmt.Errorf("make a file to copy: %w", err)
		}
	}
	each(reports, func(r *Report) {
		if !r.copies {
			return
		}
		if err := cfg.Copy(ctx, r.machine, files[r], cfg.SyncDir); err != nil {
			r.problem("%v", err)
		}
	})

	// What was copied goes, also when the time for the check is over.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	each(reports, func(r *Report) {
		if !r.copies {
			return
		}
		copied := path.Join(cfg.SyncDir, filepath.Base(files[r]))
		a, err := r.machine.Ask(clean, agent.Question{Remove: []string{copied}})
		if err != nil {
			r.problem("%v", err)
		} else if a.RemoveErr != "" && len(r.Problems) == 0 {
			r.problem("rsync reported no error, but the file that it copied could not be removed: %s", a.RemoveErr)
		}
	})
	return nil
}
