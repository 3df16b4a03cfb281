package hostsource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/ssh"
)

// fakeAWS puts a program aws first in PATH that writes its arguments to the file that is returned, prints an answer and ends with a code.
func fakeAWS(t *testing.T, answer, code string) (arguments string) {
	t.Helper()
	dir := t.TempDir()
	arguments = filepath.Join(dir, "arguments")
	if err := os.WriteFile(filepath.Join(dir, "answer"), []byte(answer), 0o644); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + arguments + "\ncat " + dir + "/answer\nif [ " + code + " != 0 ]; then echo 'Unable to locate credentials' >&2; fi\nexit " + code + "\n"
	if err := os.WriteFile(filepath.Join(dir, "aws"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return arguments
}

// awsHosts is the command that runs the script.
func awsHosts(t *testing.T, args ...string) string {
	t.Helper()
	script, err := filepath.Abs("../../../deploy/aws/hosts")
	if err != nil {
		t.Fatal(err)
	}
	return ssh.Quote(append([]string{script}, args...))
}

// The script asks for the instances with a tag. The answer is what such a query gives for an instance of each kind.
func TestExampleForAWSNamesTheInstancesWithATag(t *testing.T) {
	const answer = `[
    {
        "host": "ec2-user@10.0.0.7",
        "state": "running",
        "slots": "4"
    },
    {
        "host": "ec2-user@10.0.0.8",
        "state": "shutting-down",
        "slots": null
    }
]
`
	arguments := fakeAWS(t, answer, "0")
	c, _ := newCommand(t, awsHosts(t, `paragon=my "train"`, "ec2-user"))
	got, err := c.Ask(t.Context())
	if err != nil || texts(got) != "ec2-user@10.0.0.7 slots=4 0, ec2-user@10.0.0.8 2" {
		t.Errorf("Ask: %s, %v", texts(got), err)
	}
	want := `ec2
describe-instances
--output
json
--filters
[{"Name":"tag:paragon","Values":["my \"train\""]}]
--query
Reservations[].Instances[] | [?PrivateIpAddress].{host: join('', ['ec2-user@', PrivateIpAddress]), state: State.Name, slots: Tags[?Key=='paragon-slots'] | [0].Value}
`
	if b, err := os.ReadFile(arguments); err != nil || string(b) != want {
		t.Errorf("aws got the arguments\n%s, %v, want\n%s", b, err, want)
	}
}

func TestExampleForAWSFailsWithTheClient(t *testing.T) {
	fakeAWS(t, "[]", "253")
	c, _ := newCommand(t, awsHosts(t, "a=b"))
	if got, err := c.Ask(t.Context()); err == nil || err.Error() != "exit 253: Unable to locate credentials" {
		t.Errorf("Ask: %s, %v, want the client's exit code", texts(got), err)
	}
	for _, bad := range [][]string{{}, {"tag"}, {"=b"}, {"a="}, {"a=b", "x'y"}, {"a=b", "c", "d"}} {
		c.text = awsHosts(t, bad...)
		if got, err := c.Ask(t.Context()); err == nil || !strings.Contains(err.Error(), "exit 2: ") {
			t.Errorf("arguments %q: %s, %v, want exit code 2", bad, texts(got), err)
		}
	}
}
