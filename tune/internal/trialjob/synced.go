package trialjob

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/internal/member/searchcontrol"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// synced is the current folder as each trial copies it to its hosts: without the folder of the
// study, and those of others beside it.
func synced(study string) (ssh.Source, error) {
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err == nil {
		// Another path may name the same folder.
		study, err = filepath.EvalSymlinks(study)
	}
	if err != nil {
		return ssh.Source{}, err
	}
	s := ssh.Source{Dir: here}
	if study == here {
		s.Exclude = []string{studydir.TrialsFolder, studydir.LogName, searchcontrol.FileName}
		return s, nil
	}
	if _, err := ssh.CleanExclude(here, study); err != nil {
		// The study's folder is elsewhere.
		return s, nil
	}
	beside, err := os.ReadDir(filepath.Dir(study))
	if err != nil {
		return ssh.Source{}, err
	}
	for _, d := range beside {
		path := filepath.Join(filepath.Dir(study), d.Name())
		if _, err := os.Stat(filepath.Join(path, studydir.LogName)); err != nil && path != study {
			continue
		}
		clean, err := ssh.CleanExclude(here, path)
		if err != nil {
			return ssh.Source{}, err
		}
		s.Exclude = append(s.Exclude, clean)
	}
	return s, nil
}

// maxNamedFolders is how many folders that are not copied are named.
const maxNamedFolders = 4

// someFolders names the first of the paths, and says how many more there are.
func someFolders(paths []string) string {
	if len(paths) <= maxNamedFolders {
		return strings.Join(paths, ", ")
	}
	return fmt.Sprintf("%s and %s of other searches", strings.Join(paths[:maxNamedFolders], ", "), plural.Of(len(paths)-maxNamedFolders, "folder"))
}

// source is the current folder as the trial's hosts get it. The first trial says how much that is.
func (t *trial) source() (ssh.Source, error) {
	source, err := synced(t.StudyFolder)
	if err != nil {
		return ssh.Source{}, fmt.Errorf("tune: current folder: %w", err)
	}
	t.runner.measured.Do(func() {
		text, err := source.Size()
		if err != nil {
			t.settings.Logger.Warn("tune: cannot read the folder to copy to the hosts", "error", err)
			return
		}
		if len(source.Exclude) > 0 {
			text += ", without " + someFolders(source.Exclude)
		}
		t.settings.Logger.Info("tune: each trial copies the current folder to its hosts, without the files that they have already: "+text, "from", source.Dir, "to", t.settings.Folder)
	})
	return source, nil
}

// syncFlags are launch's about the copy of the current folder.
func (t *trial) syncFlags() ([]string, error) {
	source, err := t.source()
	if err != nil {
		return nil, err
	}
	flags := []string{"--sync-dst-dir", t.settings.Folder}
	for _, path := range source.Exclude {
		flags = append(flags, "--sync-exclude", path)
	}
	return flags, nil
}
