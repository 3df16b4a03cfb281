package start

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/launch/internal/addressfile"
	"github.com/paragon-train/paragon/launch/internal/command/options"
)

// A listener is where agents and launch ctl dial in.
type listener struct {
	*dialin.Listener

	// secret is what this launcher, its agents and launch ctl share.
	secret dialin.Secret

	// join is the command by which an agent joins.
	join string

	// addressFile is the file of --address-file, and written is what it was given; empty: none.
	addressFile string
	written     []string
}

// listen opens the place where agents and launch ctl dial in, by the flags of o. noAgents is why
// agents may not join; empty: they may.
func listen(ctx context.Context, o *options.Options, e Environment, noAgents string) (*listener, error) {
	a := o.Start.Agents
	secret, file, err := sharedSecret(a.SecretFile, e)
	if err != nil {
		return nil, err
	}
	in, err := dialin.Listen(ctx, dialin.Config{Listen: a.Listen, Secret: secret, Lease: o.Times.Host, Control: e.Control.Serve, NoAgents: noAgents, Logger: e.Log})
	if err != nil {
		return nil, err
	}
	l := &listener{Listener: in, secret: secret}
	if err := l.writeAddresses(a.AddressFile); err != nil {
		in.Close()
		return nil, fmt.Errorf("launch: --address-file: %w", err)
	}
	words := []string{"launch", "agent", "--join", strings.Join(in.Addresses(), ",")}
	if file != "" {
		words = append(words, "--secret-file", file)
	}
	l.join = ssh.Quote(words)
	return l, nil
}

// sharedSecret is the secret of --secret-file, which is made if there is none, else that of the
// environment, else a new one. path is that of the file; empty: there is none.
func sharedSecret(file string, e Environment) (secret dialin.Secret, path string, err error) {
	// No process of the job needs the secret.
	text := os.Getenv(dialin.SecretVariable)
	os.Unsetenv(dialin.SecretVariable)
	switch {
	case file != "":
		var made bool
		if secret, made, err = dialin.ReadOrMakeSecret(file); err != nil {
			return secret, "", err
		}
		if path, err = filepath.Abs(file); err != nil {
			return secret, "", fmt.Errorf("launch: --secret-file: %w", err)
		}
		if made {
			e.Log.Info(fmt.Sprintf("created the secret %s; copy it to the hosts of the agents (mode 0600)", path))
		}
	case text == "":
		secret = dialin.NewSecret()
	default:
		if secret, err = dialin.ParseSecret(text); err != nil {
			return secret, "", fmt.Errorf("launch: %s: %w", dialin.SecretVariable, err)
		}
	}
	return secret, path, nil
}

// writeAddresses writes the address file. Its path is kept absolute: launch may change its folder.
func (l *listener) writeAddresses(file string) error {
	if file == "" {
		return nil
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	l.addressFile, l.written = path, l.Addresses()
	return addressfile.Write(path, l.written)
}

// removeAddresses removes the address file that this listener has written. It may have been closed.
func (l *listener) removeAddresses() {
	if l.addressFile != "" {
		addressfile.Remove(l.addressFile, l.written)
	}
}
