package cli

import (
	"fmt"
	"strings"
)

// Man returns the man page of the program, in roff.
func (p *Program) Man() string {
	var b strings.Builder
	gate := p.Commands[0]
	fmt.Fprintf(&b, ".TH QUEUE 1 \"\" %q \"User Commands\"\n", p.Version)
	b.WriteString(".SH NAME\nqueue \\- request gate in front of a serverless container\n.SH SYNOPSIS\n")
	b.WriteString(".B queue\n[flags] [\\-\\- COMMAND ...]\n")
	for _, c := range p.Commands[1:] {
		fmt.Fprintf(&b, ".br\n.B queue %s\n[flags]\n", c.Name)
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", roff(gate.About))
	b.WriteString(".SH COMMANDS\n")
	for _, c := range p.Commands[1:] {
		fmt.Fprintf(&b, ".SS queue %s\n%s\n", c.Name, roff(c.About))
		for _, g := range c.Groups {
			writeFlags(&b, g.Flags)
		}
	}
	b.WriteString(".SH OPTIONS\nEvery setting is an environment variable and a flag. The flag takes precedence over the variable, which takes precedence over the default.\n")
	for _, g := range gate.Groups {
		if g.Title != "" {
			fmt.Fprintf(&b, ".SS %s\n", roff(g.Title))
		}
		writeFlags(&b, g.Flags)
	}
	b.WriteString(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong configuration; with an application its own, or 128 and the signal that ended it.\n" +
		".SH SEE ALSO\n.BR queuectl (1)\n")
	return b.String()
}

func writeFlags(b *strings.Builder, flags []Flag) {
	for _, f := range flags {
		fmt.Fprintf(b, ".TP\n\\fB\\-\\-%s\\fR", roff(f.Name))
		if f.Hint != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", roff(f.Hint))
		}
		if f.Variable != "" {
			fmt.Fprintf(b, ", %s", roff(f.Variable))
		}
		if f.Default != "" {
			fmt.Fprintf(b, " [%s]", roff(f.Default))
		}
		fmt.Fprintf(b, "\n%s\n", roff(f.Help))
	}
}

// roff escapes text for a man page.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}

func (c *Command) flagsOf() (all []Flag) {
	help := false
	for _, g := range c.Groups {
		for _, f := range g.Flags {
			all = append(all, f)
			help = help || f.Name == "help"
		}
	}
	if !help {
		all = append(all, Flag{Name: "help", Help: "help of this command"})
	}
	return all
}

func (p *Program) names() string {
	var names []string
	for _, c := range p.Commands[1:] {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// Bash returns the completion for bash.
func (p *Program) Bash() string {
	var b strings.Builder
	b.WriteString("# Completion of queue for bash. Made by queuectl generate.\n_queue() {\n" +
		"\tlocal current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words= i\n" +
		"\tCOMPREPLY=()\n\tfor ((i = 1; i < COMP_CWORD; i++)); do\n" +
		"\t\tif [[ ${COMP_WORDS[i]} == -- ]]; then\n\t\t\tCOMPREPLY=($(compgen -c -- \"$current\") $(compgen -f -- \"$current\"))\n\t\t\treturn\n\t\tfi\n\tdone\n" +
		"\tcase ${COMP_WORDS[1]}:$previous in\n")
	for i := len(p.Commands) - 1; i >= 0; i-- {
		c := &p.Commands[i]
		name := c.Name
		if name == "" {
			name = "*"
		}
		for _, f := range c.flagsOf() {
			switch {
			case f.Values() != nil:
				fmt.Fprintf(&b, "\t%s:--%s) words='%s' ;;\n", name, f.Name, strings.Join(f.Values(), " "))
			case f.Hint == "FILE" || f.Hint == "DIRECTORY" || f.Hint == "SOCKET":
				fmt.Fprintf(&b, "\t%s:--%s) COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n", name, f.Name)
			case f.Hint != "":
				fmt.Fprintf(&b, "\t%s:--%s) return ;;\n", name, f.Name)
			}
		}
	}
	fmt.Fprintf(&b, "\thelp:*) words='%s' ;;\n\tesac\n\tif [[ -z $words ]]; then\n\t\tcase ${COMP_WORDS[1]} in\n", p.names())
	for _, c := range p.Commands[1:] {
		fmt.Fprintf(&b, "\t\t%s) words='%s' ;;\n", c.Name, dashed(c.flagsOf()))
	}
	gate := dashed(p.Commands[0].flagsOf())
	fmt.Fprintf(&b, "\t\t*) words='%s' ;;\n\t\tesac\n\t\tif ((COMP_CWORD == 1)); then words='%s %s'; fi\n\tfi\n"+
		"\tCOMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\ncomplete -F _queue queue\n", gate, p.names(), gate)
	return b.String()
}

func dashed(flags []Flag) string {
	var all []string
	for _, f := range flags {
		all = append(all, "--"+f.Name)
	}
	return strings.Join(all, " ")
}

// Zsh returns the completion for zsh.
func (p *Program) Zsh() string {
	var b strings.Builder
	b.WriteString("#compdef queue\n# Made by queuectl generate.\n_queue() {\n\tcase $words[2] in\n")
	for _, c := range append(p.Commands[1:len(p.Commands):len(p.Commands)], p.Commands[0]) {
		name := c.Name
		if name == "" {
			name = "*"
		}
		fmt.Fprintf(&b, "\t%s)\n\t\t_arguments", name)
		switch name {
		case "*":
			fmt.Fprintf(&b, " '1::command:(%s)'", p.names())
		case "help":
			fmt.Fprintf(&b, " '1:' '2::command:(%s)'", p.names())
		default:
			b.WriteString(" '1:'")
		}
		for _, f := range c.flagsOf() {
			fmt.Fprintf(&b, " \\\n\t\t\t'--%s[%s]", f.Name, zshText(f.Help))
			switch {
			case f.Values() != nil:
				fmt.Fprintf(&b, ":%s:(%s)", zshText(f.Name), strings.Join(f.Values(), " "))
			case f.Hint == "FILE" || f.Hint == "DIRECTORY" || f.Hint == "SOCKET":
				fmt.Fprintf(&b, ":%s:_files", f.Hint)
			case f.Hint != "":
				fmt.Fprintf(&b, ":%s: ", f.Hint)
			}
			b.WriteString("'")
		}
		b.WriteString("\n\t\t;;\n")
	}
	b.WriteString("\tesac\n}\n_queue \"$@\"\n")
	return b.String()
}

func zshText(text string) string {
	return strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`, "'", `'\''`).Replace(text)
}

// Fish returns the completion for fish.
func (p *Program) Fish() string {
	var b strings.Builder
	b.WriteString("# Completion of queue for fish. Made by queuectl generate.\ncomplete -c queue -f\n")
	for _, c := range p.Commands {
		condition := fmt.Sprintf("not __fish_seen_subcommand_from %s", p.names())
		if c.Name != "" {
			fmt.Fprintf(&b, "complete -c queue -n '__fish_use_subcommand' -a %s -d %s\n", c.Name, fishText(c.Summary))
			condition = "__fish_seen_subcommand_from " + c.Name
			if c.Name == "help" {
				fmt.Fprintf(&b, "complete -c queue -n '%s' -a %s\n", condition, fishText(p.names()))
			}
		}
		for _, f := range c.flagsOf() {
			fmt.Fprintf(&b, "complete -c queue -n '%s' -l %s -d %s", condition, f.Name, fishText(f.Help))
			switch {
			case f.Values() != nil:
				fmt.Fprintf(&b, " -xa %s", fishText(strings.Join(f.Values(), " ")))
			case f.Hint == "FILE" || f.Hint == "DIRECTORY" || f.Hint == "SOCKET":
				b.WriteString(" -rF")
			case f.Hint != "":
				b.WriteString(" -x")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func fishText(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
