package options

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
)

// read reads a command line without running it.
func read(args ...string) (*Options, error) {
	var o *Options
	app := NewApp(new(bytes.Buffer), new(bytes.Buffer))
	app.Action = func(c *cli.Context) (err error) { o, err = Read(c); return err }
	return o, app.Run(JoinBool(app, append([]string{"launch"}, args...)))
}

// The variable of --ssh-command may be set for other jobs; only the flag itself is a mistake with
// agents.
func TestSSHCommandOfTheEnvironmentIsNoMistake(t *testing.T) {
	t.Setenv("PARAGON_SSH", "ssh -v")
	if _, err := read("-n", "1", "--launcher", "agents", "--secret-file", filepath.Join(t.TempDir(), "secret"), "p"); err != nil {
		t.Error(err)
	}
	if _, err := read("-n", "1", "--launcher", "agents", "--secret-file", "secret", "--ssh-command", "ssh -q", "p"); err == nil {
		t.Error("--ssh-command with agents is taken")
	}
}

func TestCommandLineIsRead(t *testing.T) {
	hostfile := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hostfile, []byte("d1\nd2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HERE", "a,b c")
	for _, tc := range []struct {
		args string
		want func(o *Options) bool
	}{
		{"-n 2 ./p --lr 3 -n 5", func(o *Options) bool {
			return o.Workers == 2 && o.Servers == 2 && !o.Start.Remote && slices.Equal(o.Command, []string{"./p", "--lr", "3", "-n", "5"})
		}},
		{"--num-workers 3 --num-servers 1 -- -odd name", func(o *Options) bool {
			return o.Workers == 3 && o.Servers == 1 && slices.Equal(o.Command, []string{"-odd", "name"})
		}},
		{"-n 3 -s 2 -H " + hostfile + " p", func(o *Options) bool {
			return o.Start.Remote && o.Start.Hosts[0].Name == "d1" && o.Start.Hosts[1].Name == "d2"
		}},
		{"-n 1 --env HERE --env A=x,y --env-server B:c:d --env-worker C= p", func(o *Options) bool {
			return slices.Equal(o.Env.All, []string{"HERE=a,b c", "A=x,y"}) && slices.Equal(o.Env.Servers, []string{"B=c:d"}) &&
				slices.Equal(o.Env.Workers, []string{"C="})
		}},
		{"-n 1 --elastic-training-enabled False p", func(o *Options) bool { return slices.Equal(o.Command, []string{"p"}) }},
		{"-n 1 --elastic-training-enabled=no p", func(o *Options) bool { return slices.Equal(o.Command, []string{"p"}) && !o.Elastic.Enabled }},
		{"-n 2 --elastic-training-enabled p", func(o *Options) bool {
			return o.Elastic.Enabled && o.Elastic.Rejoin == 3 && o.Elastic.JoinTimeout == 5*time.Minute && slices.Equal(o.Command, []string{"p"})
		}},
		{"-n 2 --elastic-training-enabled True --on-worker-loss wait --min-workers 2 --max-workers 8 --join-timeout 1m --rejoin 0 --prepare-data ./get p", func(o *Options) bool {
			e := o.Elastic
			return e.Enabled && e.OnWorkerLoss == "wait" && e.MinWorkers == 2 && e.MaxWorkers == 8 && e.JoinTimeout == time.Minute && e.Rejoin == 0 &&
				slices.Equal(e.PrepareData, []string{"/bin/sh", "-c", "./get"})
		}},
		{"-n 2 --elastic-training-enabled --adapt-workers --max-workers 4 p", func(o *Options) bool { return o.Elastic.AdaptWorkers && o.Elastic.MaxWorkers == 4 }},
		{"-n 2 --on-worker-loss shrink --backups 1 --restarts 4 --state etcd://h:2379/jobs/ p", func(o *Options) bool {
			return !o.Elastic.Enabled && o.Elastic.Backups == 1 && o.Survival.Restarts == 4 && o.Survival.State == "etcd://h:2379/jobs"
		}},
		{"-n 2 --elastic-training-enabled --on-worker-loss fail p", func(o *Options) bool { return o.Elastic.Rejoin == 0 && o.Elastic.OnWorkerLoss == "fail" }},
		{"-n 2 --state rel p", func(o *Options) bool {
			return filepath.IsAbs(o.Survival.State) && filepath.Base(o.Survival.State) == "rel"
		}},
		{"-n 1 -H " + hostfile + " --scheduler-host me@d3:2222 --sync-dst-dir ~/x p", func(o *Options) bool {
			return o.SchedulerHost.Name == "d3" && o.SchedulerHost.Port == 2222 && o.Start.SSH.SyncDir == "x"
		}},
		{"-n 1 p", func(o *Options) bool { return !o.Network.TLS }},
		{"-n 1 --tls on p", func(o *Options) bool { return o.Network.TLS }},
		{"-n 1 -H " + hostfile + " p", func(o *Options) bool { return o.Network.TLS }},
		{"-n 1 -H " + hostfile + " --tls off p", func(o *Options) bool { return !o.Network.TLS }},
		{"-n 4 --launcher agents --agents 3 --secret-file s --listen :4000 --address-file a p", func(o *Options) bool {
			return o.Start.Remote && o.Network.TLS && o.Start.Hosts == nil && o.Start.Agents == Agents{Number: 3, Listen: ":4000", SecretFile: "s", AddressFile: "a"}
		}},
		{"--check -H " + hostfile, func(o *Options) bool { return o.Check }},
	} {
		o, err := read(strings.Fields(tc.args)...)
		if err != nil || !tc.want(o) {
			t.Errorf("launch %s: %+v, %v", tc.args, o, err)
		}
	}
}

func TestWrongCommandLineSaysWhatToDo(t *testing.T) {
	hostfile := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hostfile, []byte("d1 slots=1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, want string }{
		{"./p", "give -n NUMBER"},
		{"-n 0 ./p", "-n is 0, want 1 to 5000 workers"},
		{"-n two ./p", `invalid value "two" for flag -n`},
		{"-n 1 -s -1 ./p", "-s is -1"},
		{"-n 1 --spot oracle ./p", `spot provider "oracle" is unknown; want auto, aws, gcp, azure or off`},
		{"-n 99999999999 ./p", "-n is 99999999999, want 1 to 5000 workers"},
		{"-n 20000 ./p", "-n is 20000, want 1 to 5000 workers"},
		{"-n 99999999999999999999 ./p", `invalid value "99999999999999999999" for flag -n`},
		{"-n 1 -s 5001 ./p", "-s is 5001, want 1 to 5000 servers"},
		{"-n 3000 ./p", "-n 3000 and 3000 servers (as many, since -s is not given) are 6000 nodes, want at most 5000 in all; give -s NUMBER"},
		{"-n 3000 -s 2001 ./p", "-n 3000 and 2001 servers are 5001 nodes, want at most 5000 in all; start fewer"},
		{"-n 1 --gpus 99999999999 ./p", "--gpus is 99999999999, want 0 to 1024"},
		{"-n 1 --restarts 1000001 ./p", "--restarts is 1000001, want 0, for never, to 1000000"},
		{"-n 1 --elastic-training-enabled --rejoin 1000001 ./p", "--rejoin is 1000001, want 0, for never, to 1000000"},
		{"-n 1 --elastic-training-enabled --max-workers 5001 ./p", "--max-workers is 5001, want at least the 1 of -n and at most 5000"},
		{"-n 1 --elastic-training-enabled --join-timeout 87601h ./p", "--join-timeout is 87601h0m0s, want at least 1s, such as 30s or 5m, and at most 87600h"},
		{"-n 1 --start-timeout 87601h ./p", "and at most 87600h"},
		{"-n 1 --stop-timeout 87601h ./p", "and at most 87600h"},
		{"-n 1 --host-timeout 87601h ./p", "and at most 87600h"},
		{"-n 1 --output yaml ./p", `--output "yaml" is unknown; want text or json`},
		{"-n 1 --output json --check", "--output json is for the output of processes, and --check starts none"},
		{"-n 2", "no command for the workers"},
		{"-n 1 --num-worker 2 p", "there is no flag -num-worker; did you mean --num-workers?"},
		{"-n two p", `invalid value "two" for flag -n: want a whole number`},
		{"-n 1 --start-timeout 30 p", `invalid value "30" for flag -start-timeout: want a time with its unit, such as 30s or 5m`},
		{"-n 1 --check=maybe p", `invalid boolean value "maybe" for -check: want true or false`},
		{"-n 1 --lr 2", "there is no flag -lr; put flags of the workers' command after the command"},
		{"-n 1 --launcher ssh p", "give them with -H FILE"},
		{"-n 1 --launcher slurm p", "not inside a Slurm allocation"},
		{"-n 1 --launcher kubernetes p", `--launcher "kubernetes" is unknown; want ssh, slurm, mpi, agents or local`},
		{"-n 1 --launcher foo p", `--launcher "foo" is unknown; want ssh, slurm, mpi, agents or local`},
		{"-n 1 --launcher agents p", "give --secret-file FILE (it is created if missing)"},
		{"-n 1 --launcher agents --secret-file= p", "--secret-file is empty; give a file"},
		{"-n 1 --launcher agents --secret-file s -H " + hostfile + " p", "the hosts are those whose agents dial in; leave out -H"},
		{"-n 1 --launcher agents --secret-file s --sync-dst-dir /x p", "put the folder on every host (a shared file system, an image, rsync by hand)"},
		{"-n 1 --launcher agents --secret-file s --scheduler-host d1 p", "start launch on the host where it should run"},
		{"-n 1 --launcher agents --secret-file s --ssh-command ssh p", "agents dial in without ssh"},
		{"-n 1 --launcher agents --secret-file s --host-timeout 2h p", "--host-timeout is 2h0m0s, want at most 1h0m0s with agents"},
		{"-n 1 --launcher agents --secret-file s --agents 0 p", "--agents is 0, want 1 to 5000"},
		{"-n 1 --launcher agents --secret-file s --listen 4000 p", `--listen "4000": want host:port`},
		{"-n 1 --launcher agents --secret-file s --elastic-training-enabled --adapt-workers p", "--adapt-workers needs a limit; give --max-workers NUMBER"},
		{"-n 1 --agents 2 p", "--agents is about agents that dial in; give --launcher agents, too"},
		{"-n 1 -H " + hostfile + " --address-file a p", "--address-file belongs to --listen ADDRESS, for launch ctl on other machines, or to --launcher agents"},
		{"-n 1 --launcher local -H " + hostfile + " p", "leave out -H"},
		{"-n 1 --sync-dst-dir /x p", "--sync-dst-dir is for jobs on several hosts"},
		{"-n 1 --sync-exclude x p", "--sync-exclude is for jobs on several hosts"},
		{"-n 1 -H " + hostfile + " --sync-exclude x p", "--sync-exclude is about the copy of --sync-dst-dir"},
		{"-n 1 -H /no/such/file p", "read hosts file: open /no/such/file"},
		{"-n 2 -H " + hostfile + " p", "2 workers need 2 slots"},
		{"-n 1 --gpus -1 p", "--gpus is -1, want 0 to 1024"},
		{"-n 1 --gpus 0,1 p", "want a number, auto, or UUIDs"},
		{"-n 1 --on-worker-loss die p", `--on-worker-loss "die" is unknown; want shrink, wait or fail`},
		{"-n 2 --min-workers 1 p", "--min-workers is for jobs that go on without a lost worker; give --on-worker-loss shrink or wait"},
		{"-n 2 --on-worker-loss shrink --min-workers 3 p", "--min-workers is 3, want 1 to the 2 of -n"},
		{"-n 2 --on-worker-loss shrink --min-workers 0 p", "--min-workers is 0, want 1 to the 2 of -n"},
		{"-n 2 --adapt-workers p", "--adapt-workers is about hosts that join; give --elastic-training-enabled, too"},
		{"-n 2 --elastic-training-enabled --adapt-workers p", "--adapt-workers needs a limit; give --max-workers NUMBER"},
		{"-n 2 --max-workers 4 p", "--max-workers is about hosts that join; give --elastic-training-enabled, too"},
		{"-n 2 --elastic-training-enabled --max-workers 1 p", "--max-workers is 1, want at least the 2 of -n"},
		{"-n 2 --join-timeout 1m p", "--join-timeout is about hosts that join"},
		{"-n 2 --elastic-training-enabled --join-timeout 5ms p", "--join-timeout is 5ms, want at least 1s"},
		{"-n 2 --prepare-data ./get p", "--prepare-data is about hosts that join"},
		{"-n 2 --elastic-training-enabled --prepare-data= p", "--prepare-data is empty"},
		{"-n 2 --rejoin 2 p", "--rejoin is for jobs that go on without a lost worker"},
		{"-n 2 --elastic-training-enabled --rejoin -1 p", "--rejoin is -1"},
		{"-n 2 --backups 2 p", "--backups is 2, want 0 or 1"},
		{"-n 2 -s 1 --backups 1 p", "--backups 1 keeps each shard on two servers, and there is 1; give -s 2"},
		{"-n 2 --restarts -1 p", "--restarts is -1"},
		{"-n 2 --state etcd://here p", "is not an address of etcd; write etcd://host:port/prefix"},
		{"-n 2 --state s3://b p", "want a folder or etcd://host:port/prefix"},
		{"-n 1 -H " + hostfile + " --scheduler-host d2 --state dir p", "give an absolute path"},
		{"-n 1 --elastic-training-enabled=maybe p", `"maybe" is neither True nor False`},
		{"-n 1 --env 1A=2 p", `--env "1A=2": write NAME`},
		{"-n 1 --env-worker NOT_SET_ANYWHERE p", "NOT_SET_ANYWHERE: it is not set here"},
		{"-n 1 --env PARAGON_SECRET=x p", "launch sets this variable itself"},
		{"-n 1 --env PARAGON_IDENTITY=x p", "launch sets this variable itself"},
		{"-n 1 --tls yes p", `--tls "yes" is unknown; want auto, on or off`},
		{"-n 1 --host-ip d1 p", `--host-ip "d1" is not an IP address`},
		{"-n 1 --interface none0 p", "interface none0"},
		{"-n 1 --start-timeout 0s p", "--start-timeout is 0s, want more than 0s"},
		{"-n 1 -H " + hostfile + " --ssh-command ' p", "a single quote is not closed"},
		{"-n 1 -H " + hostfile + " --scheduler-host a;b p", "--scheduler-host"},
	} {
		_, err := read(strings.Fields(tc.args)...)
		var usage command.UsageError
		if err == nil || !strings.Contains(err.Error(), tc.want) || !errors.As(err, &usage) {
			t.Errorf("launch %s: error %v, want a usage error with %q", tc.args, err, tc.want)
		}
	}
}

func TestParseVariableTakesAnyValue(t *testing.T) {
	lookup := func(name string) (string, bool) { return "v of " + name, name == "SET" }
	for _, tc := range []struct{ in, want string }{
		{"SET", "SET=v of SET"},
		{"A=b", "A=b"},
		{"A:b", "A=b"},
		{"A=b:c=d", "A=b:c=d"},
		{"A:b=c", "A=b=c"},
		{"A=", "A="},
		{"A=it's \"$x\"\n`y`", "A=it's \"$x\"\n`y`"},
		{"UNSET", ""},
		{"", ""},
		{"=x", ""},
		{"A B=c", ""},
		{"A=\x00", ""},
	} {
		got, err := parseVariable(tc.in, lookup)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("parseVariable(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
		}
	}
}
