package docstest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaultTimeout is the time limit of a block that has none of its own.
const defaultTimeout = 2 * time.Minute

// A Page is what of a page of documentation is run.
type Page struct {
	Name  string
	Steps []Step
}

// A Step is a block, or a comment that stands for itself.
type Step struct {
	// Line is the line of the fence or of the comment, from 1.
	Line int

	// Action is what to do: "block", or the word of the comment: "hosts", "slurm", "needs",
	// "run", "ctrl-c", "wait".
	Action string
	// Text is what the block or the comment says. Of a block of commands it is the script.
	Text string

	// NotRun is the reason why the block is not run; empty: it is.
	NotRun string
	Slow   bool
	// File is the file that the block is; empty: it is none.
	File string
	// Background says that the block runs in another terminal, until it prints a line with this
	// text.
	Background string
	Exit       int
	ExitGiven  bool
	Timeout    time.Duration
	Replace    [][2]string

	// Output has the lines to be expected; nil: nothing is compared.
	Output []string
	// OutputLine is where they begin.
	OutputLine int
}

// commandLanguages are the languages of blocks that are run; other blocks are run in no case.
var commandLanguages = []string{"sh", "console"}

// unclear are languages of blocks that look like commands to a reader.
var unclear = []string{"bash", "shell", "zsh", "shell-session", "cmd"}

var (
	fence    = regexp.MustCompile("^([ \t]*)(```+|~~~+) *([a-zA-Z0-9_+-]*) *$")
	comment  = regexp.MustCompile(`^\s*<!-- ([a-z -]+?)(?:: (.*?))? -->\s*$`)
	before   = []string{"not run", "exit", "background", "replace", "file", "slow", "timeout"}
	alone    = []string{"hosts", "slurm", "needs", "run", "ctrl-c", "wait"}
	ellipsis = "..."
)

// Parse reads a page. The error names every place where a comment or a block is wrong.
func Parse(name, text string) (*Page, error) {
	p := &parser{page: &Page{Name: name}, lines: strings.Split(text, "\n")}
	for p.at < len(p.lines) {
		p.line()
	}
	p.noComments("nothing follows")
	return p.page, errors.Join(p.errs...)
}

type parser struct {
	page  *Page
	lines []string
	at    int
	// next is what the comments before the next block say.
	next Step
	// comments are the lines of these comments.
	comments []int
	// list says that the reader is in a list, where text is indented.
	list bool
	// blank says that the line before was blank.
	blank bool
	// last is the last block, if it was run and has no output yet.
	last *Step
	errs []error
}

func (p *parser) errorf(line int, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d: "+format, append([]any{p.page.Name, line}, args...)...))
}

// noComments complains of comments that belong to a block when there is none.
func (p *parser) noComments(why string) {
	for _, line := range p.comments {
		p.errorf(line, "this comment belongs directly before a block, and %s", why)
	}
	p.next, p.comments = Step{}, nil
}

func (p *parser) line() {
	line := p.lines[p.at]
	number := p.at + 1
	if m := fence.FindStringSubmatch(line); m != nil {
		p.block(m[1], m[2], m[3])
		return
	}
	p.at++
	if m := comment.FindStringSubmatch(line); m != nil && (slices.Contains(before, m[1]) || slices.Contains(alone, m[1])) {
		if err := p.comment(number, m[1], m[2]); err != nil {
			p.errorf(number, "%s: %w", m[1], err)
		}
		return
	}
	p.noComments("another line follows")
	trimmed := strings.TrimSpace(line)
	switch {
	case trimmed == "":
		p.blank = true
		return
	case listItem.MatchString(line):
		p.list = true
	case !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t"):
		p.list = false
	case p.blank && !p.list && strings.HasPrefix(line, "    "):
		p.errorf(number, "a block is indented by four spaces: put it into a fence (```)")
	}
	p.blank = false
}

var listItem = regexp.MustCompile(`^\s*([-*+]|[0-9]+[.)]) `)

// comment reads a comment of ours.
func (p *parser) comment(line int, word, value string) error {
	value = strings.TrimSpace(value)
	if noValue := word == "slow" || word == "ctrl-c" || word == "wait"; noValue != (value == "") {
		if noValue {
			return fmt.Errorf("got %q, want nothing behind the word", value)
		}
		return errors.New("it says nothing")
	}
	if slices.Contains(alone, word) {
		p.noComments("a comment that stands for itself follows")
		p.page.Steps = append(p.page.Steps, Step{Line: line, Action: word, Text: value, Timeout: defaultTimeout})
		return nil
	}
	p.comments = append(p.comments, line)
	var err error
	switch word {
	case "not run":
		p.next.NotRun = value
	case "exit":
		p.next.Exit, err = strconv.Atoi(value)
		p.next.ExitGiven = true
	case "background":
		p.next.Background = value
	case "file":
		p.next.File = value
	case "slow":
		p.next.Slow = true
	case "timeout":
		p.next.Timeout, err = time.ParseDuration(value)
	case "replace":
		old, with, ok := strings.Cut(value, " => ")
		if !ok || old == "" {
			return fmt.Errorf("got %q, want OLD => NEW", value)
		}
		p.next.Replace = append(p.next.Replace, [2]string{old, with})
	}
	return err
}

// block reads a fenced block, which begins at the present line.
func (p *parser) block(indent, marks, language string) {
	s := p.next
	s.Line, s.Action = p.at+1, "block"
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	marked := len(p.comments) > 0
	p.next, p.comments = Step{}, nil
	var lines []string
	for p.at++; ; p.at++ {
		if p.at == len(p.lines) {
			p.errorf(s.Line, "the block has no end")
			return
		}
		if m := fence.FindStringSubmatch(p.lines[p.at]); m != nil && m[2] == marks && m[3] == "" {
			break
		}
		lines = append(lines, strings.TrimPrefix(p.lines[p.at], indent))
	}
	p.at++
	p.blank = false
	s.Text = strings.Join(lines, "\n") + "\n"
	switch {
	case slices.Contains(unclear, language):
		p.errorf(s.Line, "the language is %q; commands are sh, or console with their output", language)
	case s.File != "":
		p.last = nil
		p.add(s)
	case slices.Contains(commandLanguages, language):
		if language == "console" {
			if s.Text, s.Output = console(lines); s.Text == "" {
				p.errorf(s.Line, "a console block has commands behind \"$ \"")
			}
			s.OutputLine = s.Line + 1
		}
		p.add(s)
		p.last = nil
		if language == "sh" {
			p.last = &p.page.Steps[len(p.page.Steps)-1]
		}
	case marked:
		p.errorf(s.Line, "the block is neither commands (sh, console) nor a file (<!-- file: PATH -->), and has comments that say how to run it")
	case language == "text" && p.last != nil:
		p.last.Output, p.last.OutputLine = lines, s.Line+1
		p.last = nil
	default:
		p.last = nil
	}
}

func (p *parser) add(s Step) {
	for _, r := range s.Replace {
		if !strings.Contains(s.Text, r[0]) {
			p.errorf(s.Line, "there is no %q to be replaced", r[0])
		}
		s.Text = strings.ReplaceAll(s.Text, r[0], r[1])
	}
	if s.NotRun != "" && (s.File != "" || s.Background != "" || s.ExitGiven || s.Replace != nil || s.Slow) {
		p.errorf(s.Line, "the block is not run, and has comments that say how to run it")
	}
	p.page.Steps = append(p.page.Steps, s)
}

// console divides the lines of a console block into commands and output.
func console(lines []string) (script string, output []string) {
	command := false
	for _, l := range lines {
		text, begins := strings.CutPrefix(l, "$ ")
		more, goesOn := strings.CutPrefix(l, "> ")
		switch {
		case begins:
			script += text + "\n"
		case goesOn && command:
			script += more + "\n"
			continue
		default:
			output = append(output, l)
		}
		command = begins
	}
	return script, output
}
