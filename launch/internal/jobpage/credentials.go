package jobpage

import (
	"encoding/base64"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/page"
)

// The variables by which launch ctl page learns of a job's page. They stand among the credentials
// of the job's record, which only the job's user can read: whoever has the key can make links.
const (
	urlVariable = "PARAGON_PAGE_URL"
	keyVariable = "PARAGON_PAGE_KEY"
)

// Credentials are what makes links to the page at url with the key, as NAME=value.
func Credentials(url string, key page.Key) []string {
	return []string{urlVariable + "=" + url, keyVariable + "=" + base64.StdEncoding.EncodeToString(key)}
}

// Link makes a link to the page that credentials speak of; empty: they speak of none.
func Link(credentials []string) string {
	url, key := "", page.Key(nil)
	for _, v := range credentials {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case urlVariable:
			url = value
		case keyVariable:
			key, _ = base64.StdEncoding.DecodeString(value)
		}
	}
	if url == "" || len(key) == 0 {
		return ""
	}
	return key.Link(url)
}
