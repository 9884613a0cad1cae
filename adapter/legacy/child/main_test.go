package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

// mode is the environment variable that makes the test binary a child.
const mode = "HOLDFAST_TEST_CHILD"

func TestMain(m *testing.M) {
	ServeGuard()
	if what := os.Getenv(mode); what != "" {
		os.Exit(act(what))
	}
	goleak.VerifyTestMain(m)
}

// act is what a child does.
func act(what string) int {
	switch what {
	case "echo": // until its standard input ends
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println(lines.Text())
		}
	case "last": // it answers, and ends
		fmt.Println("bye")
	case "stubborn": // it takes no hint
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		select {}
	case "deaf": // it stops reading in the middle of a line, and runs on
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
		_ = os.Stdin.Close()
		fmt.Println("bye")
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		<-asked
	case "polite": // it ends on SIGTERM only
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		fmt.Println("ready")
		<-asked
		fmt.Fprintln(os.Stderr, "asked to end")
		return 9
	case "parent": // it leaves a stubborn one behind, which has its pipes
		left := exec.Command(os.Args[0])
		left.Env = []string{mode + "=stubborn"}
		left.Stdout, left.Stderr = os.Stdout, os.Stderr
		if err := left.Start(); err != nil {
			return 1
		}
		fmt.Println(left.Process.Pid)
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		return 5
	case "holder": // it starts a parent, under a guard, and waits to be killed
		guard, err := StartGuard()
		if err != nil {
			return 1
		}
		c := &Command{Path: os.Args[0], Env: []string{mode + "=parent"}, Grace: time.Minute, MaxLine: 1000, Guard: guard}
		p, err := Start(c, zerolog.Nop())
		if err != nil {
			return 2
		}
		left, err := p.Next()
		if err != nil {
			return 3
		}
		fmt.Println(guard.PID(), p.PID(), string(left))
		select {}
	case "flood": // it writes without an end on both
		long := strings.Repeat("x", 100_000)
		for {
			fmt.Println(long)
			fmt.Fprintln(os.Stderr, long)
		}
	}
	return 0
}
