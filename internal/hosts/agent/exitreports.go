//go:build unix

package agent

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/files/scratch"
)

// exitReport is the path of a child's file, which does not exist yet; empty: the folder could not
// be made, and the child cannot report.
func (s *server) exitReport(number uint32) string {
	s.once.Do(func() {
		var err error
		if s.folder, err = scratch.New("agent"); err != nil {
			s.cfg.Logger.Warn(fmt.Sprintf("launch: agent: no folder for exit reports; errors that no restart can mend are not known as such: %v", err))
		}
	})
	if s.folder == nil {
		return ""
	}
	path := filepath.Join(s.folder.Path, fmt.Sprint(number))

	// The file may be that of a child with the same number whose end was not waited for.
	_ = os.Remove(path)
	return path
}

// removeExitReports removes the folder.
func (s *server) removeExitReports() {
	s.once.Do(func() {})
	if s.folder != nil {
		_ = s.folder.Remove()
	}
}
