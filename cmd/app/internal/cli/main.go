package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main runs one command and returns its exit code. The first interrupt stops it cleanly, a second one at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return main(args, &app{stdin: stdin, stdout: stdout, stderr: stderr})
}

func main(args []string, a *app) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(interrupted{s})
		case <-ctx.Done():
		}
	}()

	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !a.begun {
		// Nothing ran: the command line itself is wrong.
		err = usage{fmt.Errorf("%w\nSee %q.", err, command.CommandPath()+" --help")}
	}
	var others []error
	if errors.As(context.Cause(ctx), new(interrupted)) && err != nil && !a.serves {
		others, err = besides(err), context.Cause(ctx)
	}
	code := exitCode(err)
	switch {
	case code == codeInterrupted && len(others) > 0:
		a.say("%s: %s", root.Name(), errors.Join(others...))
		a.say("interrupted. %s", a.resume)
	case code == codeInterrupted:
		a.say("interrupted: stopped cleanly. %s", a.resume)
	case err != nil:
		a.say("%s: %s", root.Name(), err)
	}
	return code
}
