package slurm

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// ScriptConfig says what a batch script asks Slurm for, and what it runs.
type ScriptConfig struct {
	// Name is the job's.
	Name string

	Nodes int

	// TasksPerNode is how many workers may run on each node.
	TasksPerNode int

	// CPUsPerTask is 0 if nothing is said.
	CPUsPerTask int

	// GPUsPerNode is 0 if there are none.
	GPUsPerNode int

	// Memory is that of each node, such as 16G; empty: nothing is said.
	Memory string

	// Time is the limit as Slurm writes it, such as 02:00:00; empty: it is that of the partition.
	Time string

	// Notice is the time from USR1 to the time limit, in whole seconds.
	Notice time.Duration

	Partition  string
	Account    string
	QOS        string
	Constraint string

	// Log is the output file as Slurm writes it, with %j for the job's ID.
	Log string

	// More are further options of sbatch, such as --exclusive.
	More []string

	// Launch is the path of the launch program on all nodes.
	Launch string

	// Flags are launch's own, before the command.
	Flags []string

	// Command is the workers'.
	Command []string
}

// options are the lines of #SBATCH.
func (c *ScriptConfig) options() ([]string, error) {
	var options []string
	var bad error
	add := func(name, value string) {
		if value == "" || value == "0" {
			return
		}
		if !sbatchValue.MatchString(value) {
			bad = fmt.Errorf("--%s %q: want letters, digits and the characters . , : = / %% @ + * ( ) [ ] & | _ -", name, value)
		}
		options = append(options, "--"+name+"="+value)
	}
	add("job-name", c.Name)
	add("partition", c.Partition)
	add("account", c.Account)
	add("qos", c.QOS)
	add("constraint", c.Constraint)
	add("nodes", strconv.Itoa(c.Nodes))
	add("ntasks-per-node", strconv.Itoa(c.TasksPerNode))
	add("cpus-per-task", strconv.Itoa(c.CPUsPerTask))
	add("gpus-per-node", strconv.Itoa(c.GPUsPerNode))
	add("mem", c.Memory)
	add("time", c.Time)
	add("output", c.Log)
	for _, o := range c.More {
		if !strings.HasPrefix(o, "-") || !sbatchValue.MatchString(o) {
			bad = fmt.Errorf("--sbatch %q: want an option of sbatch such as --exclusive, of letters, digits and the characters . , : = / %% @ + * ( ) [ ] & | _ -", o)
		}
		options = append(options, o)
	}
	return options, bad
}

// sbatchValue matches what an #SBATCH line holds without quotes.
var sbatchValue = regexp.MustCompile(`^[A-Za-z0-9.,:=/%@+*()\[\]&|_-]+$`)

// Script is a file for sbatch that runs launch on all nodes of its allocation. The same
// ScriptConfig gives the same text.
//
// Slurm sends USR1 before the time limit; launch then ends with control.ExitCheckpointed once the
// workers have written a checkpoint, and the script puts the job back into the queue. A job that
// was requeued resumes from its newest checkpoint.
func Script(c ScriptConfig) (string, error) {
	options, err := c.options()
	if err != nil {
		return "", err
	}
	options = append(options, "--open-mode=append", "--no-kill", "--requeue", fmt.Sprintf("--signal=B:USR1@%d", int(c.Notice.Seconds())))
	var b strings.Builder
	writeHead(&b, options)
	b.WriteString(`
# Submit this file with sbatch. Where the job is elastic, nodes of another one join it: launch slurm join JOBID
set -u

# A job that was requeued goes on from its newest checkpoint.
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
    export PARAGON_RESUME=1
fi

launch=
trap 'kill -USR1 "$launch"' USR1
trap : TERM # Slurm sends it to launch, too

`)
	words := append([]string{c.Launch, "--launcher", "slurm"}, c.Flags...)
	b.WriteString(quote(append(append(words, "--"), c.Command...)))
	fmt.Fprintf(&b, ` &
launch=$!

# A signal ends wait early; the last wait has launch's exit code.
wait "$launch"
while kill -0 "$launch" 2>/dev/null; do wait "$launch"; done
wait "$launch"
code=$?

# USR1 comes before the time limit. All workers have then written a checkpoint at one step.
if [ "$code" -eq %d ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
`, control.ExitCheckpointed)
	return b.String(), nil
}

// JoinConfig says which job the agents of another one join.
type JoinConfig struct {
	// ScriptConfig says what to ask Slurm for. Its Flags and Command are not used.
	ScriptConfig

	// Folder is the job's, with SecretFile and AddressFile.
	Folder string
}

// leaveTime is how long before its time limit a joining job's agents are told to leave.
const leaveTime = 60 * time.Second

// Join is a file for sbatch whose agents join a job that runs.
func Join(c JoinConfig) (string, error) {
	options, err := c.options()
	if err != nil {
		return "", err
	}
	options = append(options, "--no-kill", "--no-requeue")
	if c.Time != "" {
		options = append(options, fmt.Sprintf("--signal=TERM@%d", int(leaveTime.Seconds())))
	}
	var b strings.Builder
	writeHead(&b, options)
	b.WriteString(`
# Submit this file with sbatch. Its nodes join the job as hosts named NODE-JOBID, and leave it when this job ends.
set -u

# shellcheck disable=SC2016 # each node has its own name
exec srun ` + strings.Join(srunOptions, " ") + ` \
    --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" \
    /bin/sh -c 'exec "$0" "$@" --name "$SLURMD_NODENAME-$SLURM_JOB_ID"' \
    `)
	words := []string{c.Launch, "agent", "--join", "@" + c.Folder + "/" + AddressFile, "--secret-file", c.Folder + "/" + SecretFile, "--slots", strconv.Itoa(c.TasksPerNode)}
	b.WriteString(quote(words) + "\n")
	return b.String(), nil
}

func writeHead(b *strings.Builder, options []string) {
	b.WriteString("#!/bin/bash\n")
	for _, o := range options {
		b.WriteString("#SBATCH " + o + "\n")
	}
}

// plainWord matches a word that no shell reads as anything else.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote is words as a shell reads them.
func quote(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		if out[i] = w; !plainWord.MatchString(w) {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

// limits matches the time limits that Slurm reads: minutes, minutes:seconds, hours:minutes:seconds,
// days-hours and so on.
var limits = regexp.MustCompile(`^([0-9]+(:[0-5]?[0-9]){0,2}|[0-9]+-[0-9]+(:[0-5]?[0-9]){0,2})$`)

// Limit reads a time limit: as Slurm writes it, or a duration such as 90m.
func Limit(text string) (string, error) {
	if limits.MatchString(text) {
		return text, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Minute || d > 10_000*time.Hour {
		return "", fmt.Errorf("%q is not a time limit; want hours:minutes:seconds, days-hours:minutes, minutes, or a duration such as 90m", text)
	}
	seconds := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60), nil
}

// LimitTime is how long a time limit of Limit is; false: it is longer than can be told.
func LimitTime(limit string) (time.Duration, bool) {
	days, rest, withDays := strings.Cut(limit, "-")
	if !withDays {
		days, rest = "0", limit
	}
	parts := strings.Split(rest, ":")
	// What the first number counts: with days hours, alone or before seconds minutes.
	units := map[bool][]time.Duration{true: {time.Hour, time.Minute, time.Second}, false: {time.Minute, time.Second}}[withDays || len(parts) == 3]
	total := time.Duration(0)
	for i, text := range append([]string{days}, parts...) {
		n, err := strconv.ParseUint(text, 10, 20)
		if err != nil {
			return 0, false
		}
		unit := 24 * time.Hour
		if i > 0 {
			unit = units[i-1]
		}
		total += time.Duration(n) * unit
	}
	return total, true
}
