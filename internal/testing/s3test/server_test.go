package s3test_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/s3test"
)

// ask sends a request to the server, signed or not, and returns the status, the ETag and the body.
func ask(t *testing.T, s *s3test.Server, method, path string, header map[string]string) (status int, etag, body string) {
	t.Helper()
	u, err := url.Parse(s.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, u.Query().Get("endpoint")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+s3test.KeyID+"/x")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		text = append(text, " and "+err.Error()...)
	}
	return answer.StatusCode, answer.Header.Get("ETag"), string(text)
}

func TestObjectsAreReadAsS3ReadsThem(t *testing.T) {
	s := s3test.New(t)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "file"), []byte("from disk"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.AddFolder("a", folder); err != nil {
		t.Fatal(err)
	}
	s.Put("a/memory", []byte("0123456789"))
	_, etag, _ := ask(t, s, "HEAD", "/bucket/a/memory", nil)
	for _, c := range []struct {
		path   string
		header map[string]string
		status int
		body   string
	}{
		{"/bucket/a/file", nil, 200, "from disk"},
		{"/bucket/a/memory", map[string]string{"Range": "bytes=2-4"}, 206, "234"},
		{"/bucket/a/memory", map[string]string{"Range": "bytes=8-"}, 206, "89"},
		{"/bucket/a/memory", map[string]string{"Range": "bytes=8-99"}, 206, "89"},
		{"/bucket/a/memory", map[string]string{"Range": "bytes=10-"}, 416, "InvalidRange"},
		{"/bucket/a/memory", map[string]string{"If-Match": etag}, 200, "0123456789"},
		{"/bucket/a/memory", map[string]string{"If-Match": `"other"`}, 412, "PreconditionFailed"},
		{"/bucket/a/none", nil, 404, "NoSuchKey"},
		{"/other/a", nil, 404, "NoSuchBucket"},
		{"/bucket/a/file", map[string]string{"Authorization": "Credential=somebody/x"}, 403, "InvalidAccessKeyId"},
	} {
		if status, _, body := ask(t, s, "GET", c.path, c.header); status != c.status || !strings.Contains(body, c.body) {
			t.Errorf("GET %s with %v: got %d %q, want %d %q", c.path, c.header, status, body, c.status, c.body)
		}
	}
	s.Put("a/memory", []byte("another one"))
	if status, _, _ := ask(t, s, "GET", "/bucket/a/memory", map[string]string{"If-Match": etag}); status != 412 {
		t.Errorf("an object that has changed: got %d, want 412", status)
	}
}

func TestListsComeInPages(t *testing.T) {
	s := s3test.New(t)
	for i := range 25 {
		s.Put(fmt.Sprintf("set/class%d/%02d", i%2, i), nil)
	}
	s.Put("other", nil)
	type page struct {
		IsTruncated           bool
		NextContinuationToken string
		Contents              []struct{ Key string }
		CommonPrefixes        []struct{ Prefix string }
	}
	list := func(query string) (keys []string, pages int) {
		for token := ""; ; pages++ {
			_, _, body := ask(t, s, "GET", "/bucket?list-type=2&max-keys=10&"+query+"&continuation-token="+url.QueryEscape(token), nil)
			var p page
			if err := xml.Unmarshal([]byte(body), &p); err != nil {
				t.Fatal(err)
			}
			for _, o := range p.Contents {
				keys = append(keys, o.Key)
			}
			for _, o := range p.CommonPrefixes {
				keys = append(keys, o.Prefix)
			}
			if token = p.NextContinuationToken; !p.IsTruncated {
				return keys, pages + 1
			}
		}
	}
	if keys, pages := list("prefix=set/"); len(keys) != 25 || pages != 3 || keys[0] != "set/class0/00" || keys[24] != "set/class1/23" {
		t.Errorf("got %d keys on %d pages: %q, want 25 on 3", len(keys), pages, keys)
	}
	if keys, _ := list("prefix=set/&delimiter=/"); fmt.Sprint(keys) != "[set/class0/ set/class1/]" {
		t.Errorf("with a delimiter: got %q, want the two classes", keys)
	}
}

func TestFaultsComeInPlaceOfAnswers(t *testing.T) {
	s := s3test.New(t)
	var next s3test.Answer
	s.Fault = func(*http.Request) s3test.Answer { return next }
	s.Put("a", []byte("0123456789"))
	next = s3test.Answer{Status: 503, Code: "SlowDown"}
	if status, _, body := ask(t, s, "GET", "/bucket/a", nil); status != 503 || !strings.Contains(body, "SlowDown") {
		t.Errorf("got %d %q, want 503 SlowDown", status, body)
	}
	next = s3test.Answer{Cut: 4}
	if status, _, body := ask(t, s, "GET", "/bucket/a", nil); status != 200 || body != "0123 and unexpected EOF" {
		t.Errorf("got %d %q, want four bytes and an end", status, body)
	}
	if got := s.Counts().Bytes.Load(); got != 4 {
		t.Errorf("%d bytes were sent, want 4", got)
	}
}
