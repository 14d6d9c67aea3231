package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// listed is what is needed of the output of "go list".
type listed struct {
	ImportPath string
	Name       string
	Export     string // the file with the compiler's export data
	DepOnly    bool
	Module     *struct{ Path string }
}

// describeModule returns the exported API of every library package by the name of its file in the record.
func describeModule(ctx context.Context) (map[string][]string, error) {
	packages, err := list(ctx)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	api := map[string][]string{}
	for _, p := range packages {
		if p.DepOnly || !isLibrary(p) {
			continue
		}
		pkg, err := compiled.Import(p.ImportPath)
		if err != nil {
			return nil, fmt.Errorf("read the types of %s: %w", p.ImportPath, err)
		}
		if lines := describe(pkg); len(lines) > 0 {
			name := strings.TrimPrefix(p.ImportPath, p.Module.Path+"/")
			api[strings.ReplaceAll(name, "/", "_")+".txt"] = lines
		}
	}
	return api, nil
}

// isLibrary says whether other people's programs are meant to import a package.
func isLibrary(p listed) bool {
	if p.Name == "main" || strings.Contains(p.ImportPath+"/", "/internal/") {
		return false
	}
	top, _, _ := strings.Cut(strings.TrimPrefix(p.ImportPath, p.Module.Path+"/"), "/")
	return !slices.Contains([]string{"cmd", "config", "console", "lab", "examples", "integration"}, top)
}

// list compiles the module and returns its packages and all they depend on.
func list(ctx context.Context) ([]listed, error) {
	var stderr bytes.Buffer
	command := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Name,Export,DepOnly,Module", "./...")
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// describe returns one sorted line for each exported identifier, field and method of a package. Unexported fields and
// the order of fields are no part of the record.
func describe(pkg *types.Package) []string {
	qualify := types.RelativeTo(pkg)
	var lines []string
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch object := object.(type) {
		case *types.Const:
			lines = append(lines, types.ObjectString(object, qualify)+" = "+object.Val().ExactString())
		case *types.TypeName:
			lines = append(lines, describeType(object, qualify)...)
		default:
			lines = append(lines, types.ObjectString(object, qualify))
		}
	}
	slices.Sort(lines)
	return lines
}

func describeType(name *types.TypeName, qualify types.Qualifier) []string {
	if name.IsAlias() || types.IsInterface(name.Type()) {
		return []string{types.ObjectString(name, qualify)}
	}
	structure, isStruct := name.Type().Underlying().(*types.Struct)
	if !isStruct {
		return append([]string{types.ObjectString(name, qualify)}, methods(name, qualify)...)
	}
	lines := []string{"type " + types.TypeString(name.Type(), qualify) + " struct"}
	for field := range structure.Fields() {
		if field.Exported() {
			described := strings.TrimPrefix(types.ObjectString(field, qualify), "field ")
			lines = append(lines, fmt.Sprintf("field (%s) %s", name.Name(), described))
		}
	}
	return append(lines, methods(name, qualify)...)
}

// methods describes the exported methods of a type and of a pointer to it, promoted ones included.
func methods(name *types.TypeName, qualify types.Qualifier) []string {
	ofValue := types.NewMethodSet(name.Type())
	var lines []string
	for method := range types.NewMethodSet(types.NewPointer(name.Type())).Methods() {
		if !method.Obj().Exported() {
			continue
		}
		receiver := "*" + name.Name()
		if ofValue.Lookup(method.Obj().Pkg(), method.Obj().Name()) != nil {
			receiver = name.Name()
		}
		signature := strings.TrimPrefix(types.TypeString(method.Type(), qualify), "func")
		lines = append(lines, fmt.Sprintf("method (%s) %s%s", receiver, method.Obj().Name(), signature))
	}
	return lines
}
