package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A command is what a program says of one of its commands for --help.
type command struct {
	// name comes with the program and the commands above it.
	name string

	// usage is its purpose in a few words.
	usage string

	synopsis []string

	// text is the description as it is printed.
	text string

	flags []option

	// commands are those below it.
	commands []string
}

// An option is a flag as --help prints it.
type option struct {
	names, text, value, variable string
}

// below are the commands of launch, which its own help names in a sentence.
var below = map[string][]string{"launch": {"ctl", "top", "tune", "data", "slurm", "k8s", "image", "agent"}}

// commands describes programs, or commands of launch.
func (g generator) commands(programs []string) (string, error) {
	var b strings.Builder
	for _, p := range programs {
		if err := g.describe(&b, []string{p}); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// describe writes a command and then those below it, as their own --help tells of them. words are
// the names from the program on.
func (g generator) describe(b *strings.Builder, words []string) error {
	name := strings.Join(words, " ")
	program, err := filepath.Abs(filepath.Join(g.bin, words[0]))
	if err != nil {
		return err
	}
	help := exec.Command(program, append(words[1:len(words):len(words)], "--help")...)

	// Defaults of this machine are nobody's.
	help.Env = []string{"HOME=/nonexistent"}
	out, err := help.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s --help: %w: %s", name, err, out)
	}
	c, err := parseHelp(string(out))
	if err != nil {
		return fmt.Errorf("%s --help: %w", name, err)
	}
	c.name = name
	c.write(b, len(words))
	if len(words) == 1 {
		c.commands = append(c.commands, below[name]...)
	}
	for _, sub := range c.commands {
		if err := g.describe(b, append(words[:len(words):len(words)], sub)); err != nil {
			return err
		}
	}
	return nil
}

// write writes a heading, the description and a table of the flags. The table has a column for
// variables only if a flag has one.
func (c *command) write(b *strings.Builder, depth int) {
	fmt.Fprintf(b, "\n%s %s\n\n", strings.Repeat("#", min(depth+1, 4)), c.name)
	if c.usage != "" {
		fmt.Fprintf(b, "%s.\n\n", strings.ToUpper(c.usage[:1])+c.usage[1:])
	}
	if text := strings.TrimRight(strings.Join(c.synopsis, "\n")+"\n\n"+c.text, "\n"); strings.TrimSpace(text) != "" {
		fmt.Fprintf(b, "```\n%s\n```\n\n", strings.Trim(text, "\n"))
	}
	if len(c.flags) == 0 {
		return
	}
	variables := false
	for _, f := range c.flags {
		variables = variables || f.variable != ""
	}
	if variables {
		b.WriteString("| flag | meaning | default | environment |\n| --- | --- | --- | --- |\n")
	} else {
		b.WriteString("| flag | meaning | default |\n| --- | --- | --- |\n")
	}
	for _, f := range c.flags {
		fmt.Fprintf(b, "| `%s` | %s | %s |", strings.ReplaceAll(f.names, "|", `\|`), cell(f.text), cell(f.value))
		if variables {
			fmt.Fprintf(b, " %s |", f.variable)
		}
		b.WriteString("\n")
	}
}

var (
	title     = regexp.MustCompile(`^[A-Z][A-Z ]+:$`)
	envSuffix = regexp.MustCompile(` \[\$([A-Z0-9_, $]+)\]$`)
)

// parseHelp reads what a program prints for --help: one with urfave/cli, or one with package flag.
func parseHelp(text string) (*command, error) {
	if strings.HasPrefix(text, "Usage of ") {
		return parseFlagHelp(text)
	}
	sections := map[string][]string{}
	in := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if title.MatchString(line) {
			in = strings.TrimSuffix(line, ":")
			continue
		}
		if in != "" {
			sections[in] = append(sections[in], strings.TrimPrefix(line, "   "))
		}
	}
	if len(sections["NAME"]) == 0 {
		return nil, fmt.Errorf("there is no NAME in %q", text)
	}
	c := &command{synopsis: trimBlank(sections["USAGE"]), text: strings.Join(trimBlank(sections["DESCRIPTION"]), "\n")}
	_, c.usage, _ = strings.Cut(sections["NAME"][0], " - ")
	for _, line := range sections["COMMANDS"] {
		if name, _, ok := strings.Cut(line, "  "); ok && name != "" && !strings.HasPrefix(line, " ") {
			name, _, _ = strings.Cut(name, ",")
			c.commands = append(c.commands, name)
		}
	}
	for _, line := range append(sections["GLOBAL OPTIONS"], sections["OPTIONS"]...) {
		if line == "" {
			continue
		}
		names, text, _ := strings.Cut(line, "  ")
		if !strings.HasPrefix(names, "-") {
			return nil, fmt.Errorf("%q is no flag", line)
		}
		f := option{names: names, text: strings.TrimSpace(text)}
		if m := envSuffix.FindStringSubmatch(f.text); m != nil {
			f.variable = "`" + strings.ReplaceAll(m[1], ", $", "`, `") + "`"
			f.text = strings.TrimSuffix(f.text, m[0])
		}
		f.text, f.value = cutDefault(f.text)
		c.flags = append(c.flags, f)
	}
	return c, nil
}

// cutDefault takes "(default: ...)" from the end of a flag's text.
func cutDefault(text string) (rest, value string) {
	for _, opening := range []string{" (default: ", " (default ", "(default: "} {
		if i := strings.LastIndex(text, opening); i >= 0 && strings.HasSuffix(text, ")") {
			return strings.TrimSpace(text[:i]), strings.TrimSuffix(text[i+len(opening):], ")")
		}
	}
	return text, ""
}

func trimBlank(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// parseFlagHelp reads the help of package flag: " -name type", and the text in the next line behind
// a tab.
func parseFlagHelp(text string) (*command, error) {
	c := &command{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch name, isFlag := strings.CutPrefix(line, "  -"); {
		case isFlag:
			// A name of one letter has its text there.
			names, text, _ := strings.Cut(name, "\t")
			c.flags = append(c.flags, option{names: "--" + names, text: text})
		case strings.HasPrefix(line, "    \t") && len(c.flags) > 0:
			f := &c.flags[len(c.flags)-1]
			f.text, f.value = cutDefault(strings.TrimSpace(f.text + " " + strings.TrimSpace(line)))
		case !strings.HasPrefix(line, "Usage of "):
			return nil, fmt.Errorf("%q is no flag", line)
		}
	}
	return c, nil
}
