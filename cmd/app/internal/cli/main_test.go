package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millrace-go/millrace/cmd/app/internal/cli"
	"github.com/millrace-go/millrace/internal/testkit"
)

// The test binary is the command, too, when it is called by one of these names.
const (
	millrace                 = "millrace"
	millraceWithoutOneRecord = "millrace-without-one-record"
)

func TestMain(m *testing.M) {
	command := func(run func([]string, io.Reader, io.Writer, io.Writer) int) func() {
		return func() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
	}
	testscript.Main(leakChecked{m}, map[string]func(){
		millrace: command(cli.Main), millraceWithoutOneRecord: command(cli.MainWithoutOneRecord),
	})
}

type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
		return 1
	}
	return code
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			dsn := testkit.DSN(t)
			env.Setenv("DSN", dsn)
			env.Setenv("NO_DATABASE", readdressed(t, dsn, func(u *url.URL) { u.Path = "/absent" }))
			env.Setenv("NO_USER", readdressed(t, dsn, func(u *url.URL) { u.User = url.UserPassword("absent", "s3cret") }))
			env.Setenv("ELSEWHERE", elsewhere(t))
			env.Setenv("BROKERS", strings.Join(testkit.Kafka(t), ","))
			env.Setenv("TOPIC", testkit.Topic(t, 1))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "fields": fields},
	})
}

func readdressed(t *testing.T, dsn string, change func(*url.URL)) string {
	t.Helper()
	parsed, err := url.Parse(dsn)
	require.NoError(t, err)
	change(parsed)
	return parsed.String()
}

// elsewhere is a directory of another user.
func elsewhere(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		return "/"
	}
	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, 12345, 12345))
	return dir
}

// exits runs a command that must exit with the code: exits 2 millrace foo.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGUMENT...]")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit := new(exec.ExitError)
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// fields sees that stdout is one JSON document with exactly these fields: fields a b.c
func fields(ts *testscript.TestScript, neg bool, args []string) {
	var document any
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &document); err != nil {
		ts.Fatalf("stdout is no JSON document: %v", err)
	}
	got := map[string]bool{}
	fieldNames(document, "", got)
	want := slices.Sorted(slices.Values(args))
	if names := slices.Sorted(maps.Keys(got)); neg == slices.Equal(names, want) {
		ts.Fatalf("fields are %s, want %s", strings.Join(names, " "), strings.Join(want, " "))
	}
}

// fieldNames notes the fields of a document, those of list elements with [] in front of their dot.
func fieldNames(v any, path string, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			child := strings.TrimPrefix(path+"."+name, ".")
			into[child] = true
			fieldNames(value, child, into)
		}
	case []any:
		for _, value := range v {
			fieldNames(value, path+"[]", into)
		}
	}
}

// result is what a command did.
type result struct {
	stdout, stderr string
	code           int
}

// document decodes stdout.
func (r result) document(t *testing.T, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.stdout), into), "stdout: %s\nstderr: %s", r.stdout, r.stderr)
}

// names are the fields of the document on stdout.
func (r result) names(t *testing.T) []string {
	t.Helper()
	var document any
	r.document(t, &document)
	names := map[string]bool{}
	fieldNames(document, "", names)
	return slices.Sorted(maps.Keys(names))
}

// command is the command, ready to run in a process of its own.
func command(t *testing.T, name string, environment []string, args ...string) *exec.Cmd {
	t.Helper()
	executable, err := exec.LookPath(name)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), executable, args...)
	cmd.Args[0] = name
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MILLRACE_") && !strings.HasPrefix(v, "MILLRACE_TEST_")
	}), environment...)
	return cmd
}

func run(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}
