// Command demo serves the page with made-up data, for work on it:
//
//	go run ./internal/observe/page/pagetest/demo -workers 1024 -assets internal/observe/page/assets
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"time"

	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/internal/observe/page/pagetest"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to serve at")
	workers := flag.Int("workers", 4, "workers")
	servers := flag.Int("servers", 2, "servers")
	outage := flag.Int("outage", 0, "`seconds` between outages of the scheduler; 0: none")
	assets := flag.String("assets", "", "`folder` with index.html in place of what is in the program")
	flag.Parse()
	if err := run(*listen, *assets, &pagetest.Job{Workers: *workers, Servers: *servers, Outage: *outage, Past: 600, Begin: time.Now()}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(listen, assets string, job *pagetest.Job) error {
	var files fs.FS
	if assets != "" {
		files = os.DirFS(assets)
	}
	key := page.NewKey()
	s, err := page.Listen(page.Config{Listen: listen, Feed: job, Key: key, Assets: files})
	if err != nil {
		return err
	}
	fmt.Println(key.Link(s.URL()))
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)
	<-end
	return s.Close()
}
