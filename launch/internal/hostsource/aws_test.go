package hostsource

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/ssh"
)

// awsHosts is the command that runs the example script with variables of its own.
func awsHosts(t *testing.T, env []string, args ...string) string {
	t.Helper()
	script, err := filepath.Abs("../../../deploy/aws/hosts")
	if err != nil {
		t.Fatal(err)
	}
	return ssh.Quote(append(append([]string{"env"}, env...), append([]string{script}, args...)...))
}

// fakeAWS makes a program aws that writes its arguments to a file, prints an answer and ends with a
// code. path is a PATH in which it comes first.
func fakeAWS(t *testing.T, answer, code string) (path, arguments string) {
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
	return "PATH=" + dir + ":" + os.Getenv("PATH"), arguments
}

// The script asks for the instances with a tag. The answer is what its query makes of an instance
// of each kind.
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
	path, arguments := fakeAWS(t, answer, "0")
	got, err := newCommand(t, awsHosts(t, []string{path}, `paragon=my "train"`, "ec2-user")).Ask(t.Context())
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

func TestExampleForAWSFailsWithItsClient(t *testing.T) {
	path, _ := fakeAWS(t, "[]", "253")
	if got, err := newCommand(t, awsHosts(t, []string{path}, "a=b")).Ask(t.Context()); err == nil || err.Error() != "exit 253: Unable to locate credentials" {
		t.Errorf("Ask: %s, %v, want the client's exit code", texts(got), err)
	}
	for _, bad := range [][]string{{}, {"tag"}, {"=b"}, {"a="}, {"a=b", "x'y"}, {"a=b", "c", "d"}} {
		if got, err := newCommand(t, awsHosts(t, []string{path}, bad...)).Ask(t.Context()); err == nil || !strings.Contains(err.Error(), "exit 2: ") {
			t.Errorf("arguments %q: %s, %v, want exit code 2", bad, texts(got), err)
		}
	}
}

// The real client, with a server in place of EC2's: it takes the script's arguments and reads all
// pages.
func TestExampleForAWSWithTheRealClient(t *testing.T) {
	// The program is not required anywhere: the script is an example.
	if _, err := exec.LookPath("aws"); err != nil {
		t.Skip("there is no aws; install the package awscli")
	}
	instance := func(state, address, slots string) string {
		if address != "" {
			address = "<privateIpAddress>" + address + "</privateIpAddress>"
		}
		if slots != "" {
			slots = "<item><key>paragon-slots</key><value>" + slots + "</value></item>"
		}
		return "<item><instancesSet><item><instanceId>i-1</instanceId>" + address + "<instanceState><code>16</code><name>" + state +
			"</name></instanceState><tagSet><item><key>paragon</key><value>train</value></item>" + slots + "</tagSet></item></instancesSet></item>"
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Form.Get("Action") != "DescribeInstances" || r.Form.Get("Filter.1.Name") != "tag:paragon" || r.Form.Get("Filter.1.Value.1") != "train, all" {
			t.Errorf("EC2 got %v, %v", r.Form, err)
		}
		all, next := instance("running", "10.0.0.7", "4")+instance("terminated", "", ""), "<nextToken>2</nextToken>"
		if r.Form.Get("NextToken") == "2" {
			all, next = instance("shutting-down", "10.0.0.8", ""), ""
		}
		w.Header().Set("Content-Type", "text/xml")
		fmt.Fprintf(w, `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet>%s</reservationSet>%s</DescribeInstancesResponse>`, all, next)
	}))
	defer server.Close()
	env := []string{"AWS_ENDPOINT_URL=" + server.URL, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_DEFAULT_REGION=eu-west-1", "AWS_CONFIG_FILE=/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1", "AWS_PAGER=", "NO_PROXY=*"}
	if got, err := newCommand(t, awsHosts(t, env, "paragon=train, all", "ec2-user")).Ask(t.Context()); err != nil || texts(got) != "ec2-user@10.0.0.7 slots=4 0, ec2-user@10.0.0.8 2" {
		t.Errorf("Ask: %s, %v", texts(got), err)
	}
}
