package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
)

// Sources is where to look. The zero value is the defaults and the environment of the process.
type Sources struct {
	// File is a YAML file; "" = none.
	File string
	// Environment is a list of NAME=value, default os.Environ().
	Environment []string
	// Flags are the settings given on the command line, by key, and FlagNames how they are written there.
	Flags     map[string]string
	FlagNames map[string]string
}

// Load reads and validates. The settings are there even when something is wrong; the error is a Problems then.
func Load(sources Sources) (Config, []Setting, error) {
	l := &loader{merged: koanf.New("."), origin: map[string]string{}}
	l.defaults()
	l.file(sources.File)
	l.environment(sources.Environment)
	l.flags(sources)

	var c Config
	settings := make([]Setting, 0, len(keys))
	broken := false
	for _, k := range keys {
		value, remedy := parse(l.merged.Get(k.name), k.initial)
		if remedy == "" && k.check != nil {
			remedy = k.check(value)
		}
		if remedy != "" {
			l.wrong(k.name, l.origin[k.name], remedy)
			broken = true
			value = k.initial
		}
		reflect.ValueOf(k.target(&c)).Elem().Set(reflect.ValueOf(value))
		settings = append(settings, Setting{Key: k.name, Value: shown(k, value), Source: l.origin[k.name]})
	}
	if !broken {
		for _, p := range together(c) {
			l.wrong(p.Key, l.origin[p.Key], p.Remedy)
		}
	}
	if len(l.problems) > 0 {
		return Config{}, settings, l.problems
	}
	return c, settings, nil
}

type loader struct {
	merged   *koanf.Koanf
	origin   map[string]string // key -> source
	problems Problems
}

func (l *loader) wrong(key, source, remedy string) {
	l.problems = append(l.problems, Problem{Key: key, Source: source, Remedy: remedy})
}

func (l *loader) defaults() {
	for _, k := range keys {
		l.set(k.name, k.initial, "default")
	}
}

// set overlays one value.
func (l *loader) set(name string, value any, source string) {
	if err := l.merged.Load(confmap.Provider(map[string]any{name: value}, "."), nil); err != nil {
		l.wrong(name, source, "can not be read")
		return
	}
	l.origin[name] = source
}

func (l *loader) file(name string) {
	if name == "" {
		return
	}
	source := "file " + name
	layer := koanf.New(".")
	if err := layer.Load(file.Provider(name), yaml.Parser()); err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			l.wrong("config", source, "name a readable file: "+path.Err.Error())
		} else {
			l.wrong("config", source, "write valid YAML"+place(err))
		}
		return
	}
	for _, name := range layer.Keys() {
		k, known := keyNamed(name)
		value := layer.Get(name)
		switch {
		case known && k.name == "database_url" && !hasPassword(value):
			l.set(name, value, source)
		case known && k.secret:
			l.wrong(name, source, fmt.Sprintf("secrets do not belong into this file: set %s, or name a file in %s_FILE", k.environment(), k.environment()))
		case known:
			l.set(name, value, source)
		case value == nil && isSection(name): // "kafka:" with nothing below it
		default:
			l.wrong(name, source, unknownKey(name))
		}
	}
}

var lineNumber = regexp.MustCompile(`\bline \d+`)

// place is where a YAML file is wrong, as far as that is known. The rest of the error may quote a secret.
func place(err error) string {
	if line := lineNumber.FindString(err.Error()); line != "" {
		return ": see " + line
	}
	return ""
}

func hasPassword(value any) bool {
	text, ok := value.(string)
	if !ok {
		return true
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return true
	}
	_, password := parsed.User.Password()
	return password || parsed.Query().Has("password")
}

func isSection(name string) bool {
	return slices.ContainsFunc(keys, func(k key) bool { return strings.HasPrefix(k.name, name+".") })
}

// The variables that are not settings: read elsewhere, or put there by Kubernetes for a service named millrace.
var (
	reserved        = []string{Prefix + "CONFIG", Prefix + "SERVICE_SPEC"}
	reservedPrefix  = Prefix + "TEST_"
	kubernetesLinks = regexp.MustCompile(`_SERVICE_(HOST|PORT)(_|$)|_PORT(_\d+_(TCP|UDP|SCTP)(_|$)|$)`)
)

func (l *loader) environment(environ []string) {
	if environ == nil {
		environ = os.Environ()
	}
	layer := koanf.New("\x00") // variable names, as they are
	provider := env.Provider("\x00", env.Opt{Prefix: Prefix, EnvironFunc: func() []string { return environ }})
	if err := layer.Load(provider, nil); err != nil {
		l.wrong("environment", "environment", "can not be read")
		return
	}
	names := layer.Keys()
	for _, k := range keys {
		name := k.environment()
		fromFile := name + "_FILE"
		given, indirect := slices.Contains(names, name), k.secret && slices.Contains(names, fromFile)
		names = slices.DeleteFunc(names, func(n string) bool { return n == name || k.secret && n == fromFile })
		switch {
		case given && indirect:
			l.wrong(k.name, "environment "+name, "set it or "+fromFile+", not both")
		case given:
			l.set(k.name, layer.String(name), "environment "+name)
		case indirect:
			content, err := os.ReadFile(layer.String(fromFile))
			if err != nil {
				l.wrong(k.name, "environment "+fromFile, "name a readable file")
				continue
			}
			l.set(k.name, strings.TrimRight(string(content), "\r\n"), "file named by "+fromFile)
		}
	}
	for _, name := range names {
		if slices.Contains(reserved, name) || strings.HasPrefix(name, reservedPrefix) || kubernetesLinks.MatchString(name) {
			continue
		}
		l.wrong(strings.ToLower(strings.TrimPrefix(name, Prefix)), "environment "+name, unknownKey(name))
	}
}

func (l *loader) flags(sources Sources) {
	for _, k := range keys {
		if value, given := sources.Flags[k.name]; given {
			l.set(k.name, value, "flag --"+sources.FlagNames[k.name])
		}
	}
}
