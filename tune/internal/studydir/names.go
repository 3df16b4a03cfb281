package studydir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// Names in a study's folder.
const (
	// LogName is the study's log.
	LogName = "log.jsonl"
	// TrialsFolder has a folder for each trial, whose name begins with TrialPrefix.
	TrialsFolder = "trials"
	TrialPrefix  = "trial-"
)

// TrialName is the name of a trial in messages, and of its folder.
func TrialName(number int) string { return fmt.Sprintf(TrialPrefix+"%06d", number) }

// OnDisk says whether files are on the machine's disk, and not simulated by a test.
func OnDisk(fsys vfs.FS) bool {
	_, ok := fsys.(vfs.OS)
	return ok
}

// Entries are the names in a folder that begin with a prefix; none if it is no folder.
// filepath.Glob would take a bracket in the folder's path for a part of the pattern.
func Entries(folder, prefix string) (names []string, err error) {
	all, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	for _, e := range all {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}
