package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

type versionReport struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  cobra.NoArgs,
		RunE: a.run(func(*cobra.Command, []string) error {
			r := versionReport{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				r.Version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						r.Revision = s.Value
					}
				}
			}
			return a.document(r, func(t table.Writer) {
				t.AppendRows([]table.Row{{"millrace", r.Version}, {"revision", r.Revision}, {"go", r.Go}, {"platform", r.Platform}})
			})
		}),
	}
	outputFlags(cmd)
	return cmd
}
