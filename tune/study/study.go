package study

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/tune"
)

// A Study is the search that a file describes. Use it once: suggesters and schedulers have state.
type Study struct {
	// Config has no Runner; set it to Jobs.
	Config tune.Config
	// Jobs runs trials; the caller sets its Output, Logger and Launch.
	Jobs *tune.Jobs
	// Upload are files to be copied to all hosts.
	Upload []string
	// Text is the text of the file.
	Text []byte

	file file
}

// maxFile bounds a file.
const maxFile = 1 << 20

// Name is the file's name in the folder of a study.
const Name = "study.yaml"

// Load reads a file, or the study.yaml of a study's folder.
func Load(path string) (*Study, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		s, err := Load(filepath.Join(path, Name))
		if err == nil {
			s.Config.Dir = path
		}
		return s, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("study: %s has more than %d bytes", path, maxFile)
	}
	return Parse(path, text)
}

// indentedByTab finds a line that begins with a tab, which YAML does not allow.
var indentedByTab = regexp.MustCompile(`(?m)^ *\t`)

// Parse reads the text of a file; name is for errors.
func Parse(name string, text []byte) (_ *Study, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		if indentedByTab.Match(text) {
			err = fmt.Errorf("%w; indent lines with spaces, not tabs", err)
		}
		return nil, fmt.Errorf("study: %s: %w", name, err)
	}
	if len(doc.Content) == 0 {
		return nil, fmt.Errorf("study: %s is empty: want at least command, metric and space", name)
	}
	top := follow(doc.Content[0])
	_, levels := entryOf(top, "fidelity")
	r := &reader{file: name, faulty: map[string]bool{}, levels: levels != nil}
	s := &Study{Text: text}
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("study: %s line %d: got %s, want fields: name, command, metric, space", name, top.Line, what(top))
	}
	r.value(top, "", settable(&s.file))
	s.build(r, top)
	if err := r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// build makes the search from the fields, and checks that they fit together, as far as they have no
// mistakes that were found before.
func (s *Study) build(r *reader, top *yaml.Node) {
	b := &builder{reader: r, top: top, file: &s.file}
	mode, scope := b.mode(), b.scope()
	b.checkSpace(s.flags())
	b.name()
	s.Config = b.config(mode, scope)
	b.chooseRules(&s.Config)
	b.checkNumbers(&s.Config)
	b.validate(s.Config)
	b.checkHosts()
	s.Upload = s.file.Places.Upload
	s.Jobs = b.jobs(&s.Config)
	s.Jobs.CommandFor = func(_ []string, a tune.Attempt) ([]string, error) { return s.Command(a), nil }
}

// flags says whether parameters become flags of a command that names none.
func (s *Study) flags() bool { return !s.file.Trials.Flags.off }

// Command is the command of an attempt, by its trial, parameters, seed and checkpoint.
func (s *Study) Command(a tune.Attempt) []string {
	return s.file.Trials.Command.fill(s.file.params(), a, s.flags())
}

// ErrNoFile is returned by Find for the study of a program, which has no file.
var ErrNoFile = errors.New("it has no " + Name)

// Find reads the file of an existing study by the path of its log or folder.
func Find(path string) (*Study, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("study: %w", err)
	} else if !info.IsDir() {
		path = filepath.Dir(path)
	}
	s, err := Load(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("study: %s: %w: a program's own search has its rules in the code of that program: recompute it there with tune.Replay", path, ErrNoFile)
	}
	return s, err
}
