package options

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// Environment is what --env, --env-server and --env-worker give, as NAME=VALUE.
type Environment struct {
	// All is for every process, Servers and Workers for those of one role, behind All: the last
	// value of a name counts.
	All, Servers, Workers []string
}

// readEnvironment reads the three flags. A variable that is given by its name alone has the value
// that it has here.
func readEnvironment(c *cli.Context) (Environment, error) {
	var e Environment
	for _, g := range []struct {
		flag string
		to   *[]string
	}{{"env", &e.All}, {"env-server", &e.Servers}, {"env-worker", &e.Workers}} {
		for _, s := range c.StringSlice(g.flag) {
			v, err := parseVariable(s, os.LookupEnv)
			if err != nil {
				return Environment{}, command.Usagef("--%s %v", g.flag, err)
			}
			*g.to = append(*g.to, v)
		}
	}
	return e, nil
}

// variable matches NAME, NAME=VALUE and NAME:VALUE. The value may have line ends.
var variable = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_]*)(?:[=:](.*))?$`)

// ours are the variables that launch sets itself.
var ours = map[string]bool{
	"DMLC_ROLE": true, "DMLC_PS_ROOT_URI": true, "DMLC_PS_ROOT_PORT": true, "DMLC_NUM_WORKER": true, "DMLC_NUM_SERVER": true,
	"DMLC_NODE_HOST": true, "DMLC_TASK_ID": true, "PARAGON_RANK": true, "PARAGON_HOSTS": true, "PARAGON_LISTEN": true, "PARAGON_JOB": true, "PARAGON_PROCESS": true,
	"PARAGON_SECRET": true, "PARAGON_IDENTITY": true, "PARAGON_START_TIMEOUT": true, "PARAGON_REPORT_FD": true, "PARAGON_JOIN": true, "PARAGON_STATE": true,
	"PARAGON_ELASTIC": true, "PARAGON_ON_WORKER_LOSS": true, "PARAGON_MIN_WORKERS": true, "PARAGON_MAX_WORKERS": true,
	"PARAGON_JOIN_TIMEOUT": true, "PARAGON_BACKUPS": true, "PARAGON_REJOIN": true, "PARAGON_LOG_FORMAT": true, "PARAGON_METRICS_LISTEN": true, "PARAGON_RESTARTS": true,
	"PARAGON_RUN": true, "PARAGON_RUN_AGAIN": true, "PARAGON_EXIT_REPORT": true,
}

// parseVariable reads NAME, NAME=VALUE or NAME:VALUE into NAME=VALUE. Everything behind the first =
// or : is the value.
func parseVariable(s string, lookup func(string) (string, bool)) (string, error) {
	// An empty value is a value: only a name alone takes the one that is set here.
	m := variable.FindStringSubmatchIndex(s)
	if m == nil {
		return "", fmt.Errorf("%q: write NAME, NAME=VALUE or NAME:VALUE, with a NAME of letters, digits and _", s)
	}
	name := s[m[2]:m[3]]
	var value string
	if m[4] >= 0 {
		value = s[m[4]:]
	} else {
		var ok bool
		if value, ok = lookup(name); !ok {
			return "", fmt.Errorf("%s: it is not set here; set it, or write %s=VALUE", name, name)
		}
	}
	switch {
	case strings.IndexByte(value, 0) >= 0:
		return "", fmt.Errorf("%s: its value contains a NUL byte, which an environment variable cannot hold", name)
	case ours[name]:
		return "", fmt.Errorf("%s: launch sets this variable itself", name)
	}
	return name + "=" + value, nil
}

// Resumes reports whether PARAGON_RESUME is set for the workers.
func (e Environment) Resumes(getenv func(string) string) bool {
	const name = "PARAGON_RESUME"

	// The last of several values is the one that a process sees. An empty one turns off what is set
	// here.
	value := getenv(name)
	for _, v := range append(append([]string(nil), e.All...), e.Workers...) {
		if given, ok := strings.CutPrefix(v, name+"="); ok {
			value = given
		}
	}
	return value != ""
}

// ResumeCommand is the command line of a job, as a shell reads it, with which the job resumes from
// its newest checkpoint.
func ResumeCommand(args []string) string {
	const variable = "PARAGON_RESUME=1"
	words := []string{args[0]}
	if !slices.Contains(args, variable) && !slices.Contains(args, "--env="+variable) {
		words = append(words, "--env", variable)
	}
	return ssh.Quote(append(words, args[1:]...))
}

// ForRemote puts the variables that are passed on before those that were asked for.
func (e Environment) ForRemote(lookup func(string) (string, bool)) []string {
	return append(process.PassedOn(lookup), e.All...)
}
