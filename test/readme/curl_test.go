package readme

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// curl stands in for the program of that name, as far as the snippets use it,
// so that they run where it is not installed: -sS, -m, -H, -d and one URL. Whatever
// else is given is refused.
func curl(args []string, stdout io.Writer) error {
	method, url, body := http.MethodGet, "", ""
	header, most := http.Header{}, patience
	for i := 0; i < len(args); i++ {
		value := func() string {
			if i++; i < len(args) {
				return args[i]
			}
			return ""
		}
		switch arg := args[i]; {
		case arg == "-sS":
		case arg == "-m":
			seconds, err := strconv.Atoi(value())
			if err != nil {
				return fmt.Errorf("-m: %w", err)
			}
			most = time.Duration(seconds) * time.Second
		case arg == "-H":
			name, text, ok := strings.Cut(value(), ":")
			if !ok {
				return fmt.Errorf("-H %q is no header", args[i])
			}
			header.Add(name, strings.TrimSpace(text))
		case arg == "-d":
			method, body = http.MethodPost, value()
		case strings.HasPrefix(arg, "http://") && url == "":
			url = arg
		default:
			return fmt.Errorf("the stand-in for curl does not know %q", arg)
		}
	}
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = header
	client := http.Client{Timeout: most, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(stdout, response.Body)
	return err
}

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// playCurl is main for the stand-in.
func playCurl() int {
	if err := curl(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "curl:", err)
		return 1
	}
	return 0
}
