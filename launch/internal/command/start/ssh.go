package start

import (
	"context"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
	"github.com/paragon-train/paragon/launch/internal/method"
)

// openSSH opens the hosts of a file, or of a list that others keep.
func openSSH(o *options.Options, e Environment) (method.Method, error) {
	cfg := ssh.Config{Command: o.Start.SSH.Command, Executable: e.Executable, AgentArgs: agentArguments(o, o.Times.Host.String(), false), Logger: e.Log}
	find := func(context.Context) ([]hosts.Host, error) { return o.Start.Hosts, nil }
	if o.Start.Hosts == nil {
		find = func(ctx context.Context) ([]hosts.Host, error) { return e.Source.Await(ctx, o.Workers) }
	}

	// launch writes the files that are left out.
	source := ssh.Source{Dir: e.Folder, Exclude: []string{hostworker.Name, hostworker.LogName}}
	for _, path := range o.Start.SSH.SyncExclude {
		clean, err := ssh.CleanExclude(e.Folder, path)
		if err != nil {
			return nil, command.Usagef("--sync-exclude: %v", err)
		}
		source.Exclude = append(source.Exclude, clean)
	}
	return method.NewSSH(find, cfg, source, o.Start.SSH.SyncDir), nil
}
