//! Parses kernels: a recursive-descent parser of the output of [`super::print`]. It is for tests, so it stops at the
//! first mistake and reports its line.

use super::expr::{ExprId, LocalId, Ty, VarId};
use super::kernel::{Access, BufferId, Kernel, Placement};
use super::operators::{can_reinterpret, is_table};
use super::print::{binary_name, binary_token};
use super::stmt::{Body, Failure, For, Hints, Iterations, LoopKind, Stmt, StmtId};
use crate::ir::{BinOp, CmpOp, DType, Intrinsic, Symbol};

/// The text is not a kernel.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// The expectation and the text found.
    pub message: String,
}

/// Reads one kernel; `//` at the start of a line comments it out.
pub fn parse(text: &str) -> Result<Kernel, ParseError> {
    let tokens = lex(text)?;
    let mut parser =
        Parser { tokens, next: 0, kernel: Kernel::new(""), buffers: Vec::new(), locals: Vec::new(), vars: Vec::new() };
    parser.kernel()?;
    Ok(parser.kernel)
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Word(String),
    Int(i128),
    Float(f64),
    /// Punctuation and operators.
    Mark(&'static str),
    End,
}

const MARKS: &[&str] = &[
    "//", "==", "!=", "<=", ">=", "&&", "||", "(", ")", "[", "]", "{", "}", ",", ";", ":", "@", "=", "<", ">", "+",
    "-", "*", "/", "%", "!",
];

fn lex(text: &str) -> Result<Vec<(Token, usize)>, ParseError> {
    let mut tokens = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line_number = n + 1;
        if line.trim_start().starts_with("//") {
            continue;
        }
        let mut rest = line.trim_start();
        while let Some(c) = rest.chars().next() {
            let (token, len) = if c.is_ascii_alphabetic() || c == '_' {
                let len = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
                (Token::Word(rest[..len].into()), len)
            } else if c.is_ascii_digit() {
                lex_number(rest).ok_or_else(|| ParseError {
                    line: line_number,
                    message: format!("expected a number, found `{rest}`"),
                })?
            } else if let Some(mark) = MARKS.iter().find(|m| rest.starts_with(**m)) {
                (Token::Mark(mark), mark.len())
            } else {
                return Err(ParseError { line: line_number, message: format!("unexpected character `{c}`") });
            };
            tokens.push((token, line_number));
            rest = rest[len..].trim_start();
        }
    }
    tokens.push((Token::End, text.lines().count()));
    Ok(tokens)
}

fn lex_number(text: &str) -> Option<(Token, usize)> {
    let bytes = text.as_bytes();
    let mut len = 0;
    let mut is_float = false;
    while len < bytes.len() {
        match bytes[len] {
            b'0'..=b'9' => {}
            b'.' => is_float = true,
            b'e' | b'E' => {
                is_float = true;
                if bytes.get(len + 1).is_some_and(|b| matches!(b, b'-' | b'+')) {
                    len += 1;
                }
            }
            _ => break,
        }
        len += 1;
    }
    let token = if is_float { Token::Float(text[..len].parse().ok()?) } else { Token::Int(text[..len].parse().ok()?) };
    Some((token, len))
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    kernel: Kernel,
    buffers: Vec<(String, BufferId)>,
    locals: Vec<(String, LocalId)>,
    /// Innermost last.
    vars: Vec<(String, VarId)>,
}

type Parsed<T> = Result<T, ParseError>;

impl Parser {
    // ---- tokens --------------------------------------------------------------------------------------------

    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        if token != Token::End {
            self.next += 1;
        }
        token
    }

    fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(ParseError { line: self.tokens[self.next].1, message: message.into() })
    }

    fn is(&self, mark: &str) -> bool {
        matches!(self.peek(), Token::Mark(m) if *m == mark)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        self.next += found as usize;
        found
    }

    fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.eat(mark) { Ok(()) } else { self.error(format!("expected `{mark}`, found {:?}", self.peek())) }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(w) if w == word)
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.next += found as usize;
        found
    }

    fn word(&mut self) -> Parsed<String> {
        match self.take() {
            Token::Word(w) => Ok(w),
            other => self.error(format!("expected a name, found {other:?}")),
        }
    }

    fn int(&mut self) -> Parsed<i128> {
        let negative = self.eat("-");
        match self.take() {
            Token::Int(v) => Ok(if negative { -v } else { v }),
            other => self.error(format!("expected an integer, found {other:?}")),
        }
    }

    fn small<T: TryFrom<i128>>(&mut self) -> Parsed<T> {
        let v = self.int()?;
        match T::try_from(v) {
            Ok(v) => Ok(v),
            Err(_) => self.error(format!("integer {v} is out of range")),
        }
    }

    /// A type: `float32` or, with lanes, `float32x4`.
    fn ty(&mut self) -> Parsed<Ty> {
        let word = self.word()?;
        if let Ok(dtype) = word.parse() {
            return Ok(Ty::scalar(dtype));
        }
        let vector = word
            .rsplit_once('x')
            .and_then(|(dtype, lanes)| Some(Ty::vector(dtype.parse().ok()?, lanes.parse().ok().filter(|&l| l > 1)?)));
        match vector {
            Some(ty) => Ok(ty),
            None => self.error(format!("expected a type, found `{word}`")),
        }
    }

    fn dtype(&mut self) -> Parsed<DType> {
        let ty = self.ty()?;
        if ty.lanes == 1 { Ok(ty.dtype) } else { self.error(format!("expected a scalar type, found `{ty}`")) }
    }

    // ---- declarations --------------------------------------------------------------------------------------

    fn kernel(&mut self) -> Parsed<()> {
        if !self.eat_word("kernel") {
            return self.error("expected `kernel`");
        }
        self.expect("@")?;
        self.kernel.name = Symbol::new(&self.word()?);
        self.expect("(")?;
        while !self.eat(")") {
            let name = self.word()?;
            self.expect(":")?;
            let access = match self.word()?.as_str() {
                "in" => Access::In,
                "out" => Access::Out,
                "inout" => Access::InOut,
                other => return self.error(format!("expected `in`, `out` or `inout`, found `{other}`")),
            };
            let (dtype, len) = self.array()?;
            let id = self.kernel.add_param(name.as_str(), dtype, len, access);
            self.buffers.push((name, id));
            if !self.is(")") {
                self.expect(",")?;
            }
        }
        self.expect("{")?;
        loop {
            if self.eat_word("scratch") {
                let name = self.word()?;
                self.expect(":")?;
                let (dtype, len) = self.array()?;
                let id = self.kernel.add_scratch(name.as_str(), dtype, len, Placement::Shared);
                if self.eat_word("per_worker") {
                    self.kernel.buffer_mut(id).storage = super::Storage::Scratch(Placement::PerWorker);
                }
                self.buffers.push((name, id));
            } else if self.eat_word("register") {
                let name = self.word()?;
                self.expect(":")?;
                let ty = self.ty()?;
                let id = self.kernel.arena.new_local(name.as_str(), ty);
                self.locals.push((name, id));
            } else {
                break;
            }
        }
        self.kernel.body = self.body()?;
        if *self.peek() == Token::End { Ok(()) } else { self.error("expected the end of the text") }
    }

    fn array(&mut self) -> Parsed<(DType, i64)> {
        let dtype = self.dtype()?;
        self.expect("[")?;
        let len: i64 = self.small()?;
        if len < 0 {
            return self.error("a buffer has no negative length");
        }
        self.expect("]")?;
        Ok((dtype, len))
    }

    // ---- statements ----------------------------------------------------------------------------------------

    /// Statements up to and including `}`.
    fn body(&mut self) -> Parsed<Body> {
        let scope = self.vars.len();
        let mut stmts: Vec<StmtId> = Vec::new();
        while !self.eat("}") {
            let stmt = self.stmt()?;
            stmts.push(self.kernel.stmts.push(stmt));
        }
        self.vars.truncate(scope);
        Ok(self.kernel.stmts.body(&stmts))
    }

    fn stmt(&mut self) -> Parsed<Stmt> {
        if self.eat_word("for") {
            return self.for_loop();
        }
        if self.eat_word("while") {
            let name = self.word()?;
            let Some(&(_, running)) = self.locals.iter().find(|l| l.0 == name) else {
                return self.error(format!("no register is called `{name}`"));
            };
            self.expect("{")?;
            return Ok(Stmt::While { running, body: self.body()? });
        }
        if self.eat_word("if") {
            let condition = self.expr(0)?;
            self.expect("{")?;
            let then = self.body()?;
            let otherwise = if self.eat_word("else") {
                self.expect("{")?;
                self.body()?
            } else {
                Body::EMPTY
            };
            return Ok(Stmt::If { condition, then, otherwise });
        }
        if self.eat_word("let") {
            let name = self.word()?;
            self.expect(":")?;
            let ty = self.ty()?;
            self.expect("=")?;
            let value = self.expr(0)?;
            self.typed(value, ty)?;
            let var = self.kernel.arena.new_var(name.as_str(), ty);
            self.vars.push((name, var));
            return Ok(Stmt::Let { var, value });
        }
        if self.eat_word("check") {
            let condition = self.expr(0)?;
            if !self.eat_word("else") {
                return self.error("expected `else`");
            }
            let failure = match self.word()?.as_str() {
                "out_of_bounds" => {
                    self.expect("(")?;
                    let name = self.word()?;
                    let buffer = self.buffer(&name)?;
                    self.expect(")")?;
                    Failure::OutOfBounds { buffer }
                }
                "division" => Failure::Division,
                "assertion" => {
                    self.expect("(")?;
                    let index = self.expr(0)?;
                    self.expect(")")?;
                    match self.kernel.arena.as_int(index).and_then(|i| u32::try_from(i).ok()) {
                        Some(index) => Failure::Assertion { index },
                        None => return self.error("expected the number of an assertion"),
                    }
                }
                other => return self.error(format!("expected a failure, found `{other}`")),
            };
            return Ok(Stmt::Check { condition, failure });
        }
        let name = self.word()?;
        if self.eat("[") {
            let buffer = self.buffer(&name)?;
            let index = self.expr(0)?;
            self.expect("]")?;
            self.expect("=")?;
            let value = self.expr(0)?;
            return Ok(Stmt::Store { buffer, index, value });
        }
        self.expect("=")?;
        let Some(&(_, local)) = self.locals.iter().find(|l| l.0 == name) else {
            return self.error(format!("no register is called `{name}`"));
        };
        let value = self.expr(0)?;
        self.typed(value, self.kernel.arena.local(local).ty)?;
        Ok(Stmt::Set { local, value })
    }

    fn for_loop(&mut self) -> Parsed<Stmt> {
        let name = self.word()?;
        if !self.eat_word("in") {
            return self.error("expected `in`");
        }
        let extent = self.expr(0)?;
        let mut l = For::serial(self.kernel.arena.new_var(name.as_str(), Ty::INDEX), extent, Body::EMPTY);
        while !self.eat("{") {
            match self.word()?.as_str() {
                "parallel" => l.kind = LoopKind::Parallel,
                "vector" => l.kind = LoopKind::Vector,
                "unroll" => l.kind = LoopKind::Unroll,
                "independent" => l.iterations = Iterations::Independent,
                "reduction" => l.iterations = Iterations::Reduction,
                "hint" => match self.word()?.as_str() {
                    "unroll" => l.hints.unroll = self.small()?,
                    "stream" => l.hints = Hints { stream: true, ..l.hints },
                    other => return self.error(format!("expected a hint, found `{other}`")),
                },
                other => return self.error(format!("expected a property of the loop, found `{other}`")),
            }
        }
        self.vars.push((name, l.var));
        l.body = self.body()?;
        self.vars.pop();
        Ok(Stmt::For(l))
    }

    fn buffer(&self, name: &str) -> Parsed<BufferId> {
        match self.buffers.iter().find(|b| b.0 == name) {
            Some(b) => Ok(b.1),
            None => self.error(format!("no buffer is called `{name}`")),
        }
    }

    // ---- expressions ---------------------------------------------------------------------------------------

    fn typed(&self, e: ExprId, wanted: Ty) -> Parsed<()> {
        let found = self.kernel.arena.ty(e);
        if found == wanted { Ok(()) } else { self.error(format!("expected type `{wanted}`, found `{found}`")) }
    }

    /// An expression whose operators all have at least precedence `level`.
    fn expr(&mut self, level: u8) -> Parsed<ExprId> {
        const OPS: [BinOp; 8] =
            [BinOp::Or, BinOp::And, BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::Div, BinOp::FloorDiv, BinOp::FloorMod];
        const COMPARISONS: [CmpOp; 6] = [CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge];
        let mut left = self.operand()?;
        loop {
            let op = OPS.into_iter().find_map(|op| {
                let (token, own) = binary_token(op)?;
                (self.is(token) && own >= level).then_some((op, own))
            });
            if let Some((op, own)) = op {
                self.next += 1;
                let right = self.expr(own + 1)?;
                self.typed(right, self.kernel.arena.ty(left))?;
                left = self.kernel.arena.binary(op, left, right);
                continue;
            }
            let Some(op) = COMPARISONS.into_iter().find(|op| self.is(op.token()) && level <= 3) else {
                return Ok(left);
            };
            self.next += 1;
            let right = self.expr(4)?;
            self.typed(right, self.kernel.arena.ty(left))?;
            left = self.kernel.arena.compare(op, left, right);
        }
    }

    fn operand(&mut self) -> Parsed<ExprId> {
        if self.eat("(") {
            let e = self.expr(0)?;
            self.expect(")")?;
            return Ok(e);
        }
        if self.eat("!") {
            let e = self.operand()?;
            return Ok(self.kernel.arena.not(e));
        }
        if matches!(self.peek(), Token::Int(_) | Token::Float(_) | Token::Mark("-")) {
            return self.number(None);
        }
        let name = self.word()?;
        if let Some(&(_, v)) = self.vars.iter().rev().find(|v| v.0 == name) {
            return Ok(self.kernel.arena.var_expr(v));
        }
        if let Some(&(_, l)) = self.locals.iter().find(|l| l.0 == name) {
            return Ok(self.kernel.arena.local_expr(l));
        }
        if name == "true" || name == "false" {
            return Ok(self.kernel.arena.bool(name == "true"));
        }
        if self.eat("[") {
            let buffer = self.buffer(&name)?;
            let index = self.expr(0)?;
            let indices = self.kernel.arena.ty(index);
            if indices.lanes > 1 && matches!(indices.dtype, DType::Int64 | DType::Int32) {
                self.expect("]")?;
                let dtype = self.kernel.buffer(buffer).dtype;
                return Ok(self.kernel.arena.gather(buffer, index, dtype));
            }
            self.typed(index, Ty::INDEX)?;
            let lanes = if self.eat(";") { self.small()? } else { 1 };
            self.expect("]")?;
            let ty = Ty::vector(self.kernel.buffer(buffer).dtype, lanes);
            return Ok(self.kernel.arena.load(buffer, index, ty));
        }
        if !self.eat("(") {
            return self.error(format!("nothing is called `{name}`"));
        }
        let e = self.call(&name)?;
        self.expect(")")?;
        Ok(e)
    }

    /// A literal, of type `int64` or `float32` unless another type is stated.
    fn number(&mut self, dtype: Option<DType>) -> Parsed<ExprId> {
        let negative = self.eat("-");
        let sign = if negative { -1.0 } else { 1.0 };
        let arena = &mut self.kernel.arena;
        let token = self.tokens[self.next].0.clone();
        self.next += 1;
        match (token, dtype.unwrap_or(DType::Int64).is_float()) {
            (Token::Int(v), false) => {
                Ok(arena.int(if negative { -v } else { v } as i64, dtype.unwrap_or(DType::Int64)))
            }
            (Token::Int(v), true) => Ok(arena.float(sign * v as f64, dtype.unwrap_or(DType::Float32))),
            (Token::Float(v), _) => Ok(arena.float(sign * v, dtype.unwrap_or(DType::Float32))),
            (Token::Word(w), _) if w == "inf" => Ok(arena.float(sign * f64::INFINITY, dtype.unwrap_or(DType::Float32))),
            (Token::Word(w), _) if w == "NaN" => Ok(arena.float(f64::NAN, dtype.unwrap_or(DType::Float32))),
            (other, _) => {
                self.next -= 1;
                self.error(format!("expected a number, found {other:?}"))
            }
        }
    }

    /// The part after `name(`, up to but without `)`.
    fn call(&mut self, name: &str) -> Parsed<ExprId> {
        if let Ok(dtype) = name.parse::<DType>() {
            return self.number(Some(dtype));
        }
        match name {
            "cast" => {
                let dtype = self.dtype()?;
                self.expect(",")?;
                let e = self.expr(0)?;
                return Ok(self.kernel.arena.cast(dtype, e));
            }
            "reinterpret" => {
                let dtype = self.dtype()?;
                self.expect(",")?;
                let e = self.expr(0)?;
                let from = self.kernel.arena.ty(e);
                if from.dtype != dtype && !can_reinterpret(from, dtype) {
                    return self.error(format!("the bits of {from} are no {dtype}"));
                }
                return Ok(self.kernel.arena.reinterpret(dtype, e));
            }
            "splat" | "extract" => {
                let e = self.expr(0)?;
                self.expect(",")?;
                let n: u16 = self.small()?;
                let arena = &mut self.kernel.arena;
                return Ok(if name == "splat" { arena.broadcast(e, n) } else { arena.extract(e, n) });
            }
            "ramp" => {
                let base = self.expr(0)?;
                self.expect(",")?;
                let stride = self.small()?;
                self.expect(",")?;
                let lanes = self.small()?;
                return Ok(self.kernel.arena.ramp(base, stride, lanes));
            }
            "reduce" => {
                let op = self.word()?;
                let all = [BinOp::Add, BinOp::Mul, BinOp::Min, BinOp::Max, BinOp::And, BinOp::Or];
                let Some(op) = all.into_iter().find(|&o| binary_name(o) == op) else {
                    return self.error(format!("lanes cannot be combined by `{op}`"));
                };
                self.expect(",")?;
                let e = self.expr(0)?;
                return Ok(self.kernel.arena.reduce(op, e));
            }
            _ => {}
        }
        let mut args = vec![self.expr(0)?];
        while self.eat(",") {
            args.push(self.expr(0)?);
        }
        let arena = &mut self.kernel.arena;
        match (name, args.as_slice()) {
            ("min", &[a, b]) => Ok(arena.binary(BinOp::Min, a, b)),
            ("max", &[a, b]) => Ok(arena.binary(BinOp::Max, a, b)),
            ("mod", &[a, b]) => Ok(arena.binary(BinOp::Mod, a, b)),
            ("select", &[c, t, o]) => Ok(arena.select(c, t, o)),
            ("if_then_else", &[c, t, o]) => Ok(arena.if_then_else(c, t, o)),
            ("dot4", &[acc, a, b]) => {
                let ty = arena.ty(acc).with_dtype(DType::Int32);
                for e in [acc, a, b] {
                    self.typed(e, ty)?;
                }
                Ok(self.kernel.arena.dot4(acc, a, b))
            }
            ("lookup", &[index, ref table @ ..]) => {
                if table.is_empty() || !is_table(arena, table) {
                    return self.error("a table has a power of two of constants of one type, of 32 or 64 bits");
                }
                if !arena.dtype(index).is_integer() {
                    return self.error("a table is indexed by integers");
                }
                Ok(arena.lookup(table, index))
            }
            ("pack", items) => Ok(arena.pack(items)),
            _ => match Intrinsic::from_name(name) {
                Some(f) if f.arity() == args.len() => Ok(arena.call(f, &args)),
                Some(f) => self.error(format!("expected {} arguments of `{name}`, found {}", f.arity(), args.len())),
                None => self.error(format!("no function is called `{name}`")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::print::print;
    use super::super::verify::verify;
    use super::*;

    fn check(text: &str) {
        let kernel = parse(text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(verify(&kernel), vec![]);
        assert_eq!(print(&kernel), text);
    }

    #[test]
    fn text_reads_back() {
        check(
            "kernel @matmul(A: in float32[16384], B: in float32[16384], C: out float32[16384]) {
  scratch T: float32[64] per_worker
  register acc: float32x4
  for i in 128 parallel independent {
    for j in 32 vector hint unroll 16 {
      acc = splat(0.0, 4)
      for k in 128 reduction {
        let a: float32 = A[i * 128 + k]
        acc = acc + splat(a, 4) * B[k * 128 + j * 4; 4]
      }
      if i < 5 && !(j == 2 || j == 3) {
        C[i * 128 + j * 4] = max(acc, splat(0.0, 4))
      } else {
        C[i * 128 + j * 4 - 1] = acc
      }
      check i * (j + 1) < 4000 else out_of_bounds(C)
      T[j] = if_then_else(i >= 1, A[(i - 1) * 128], exp(2.5)) + reduce(add, acc)
      T[j % 4 + i // 3] = select(j < 2, cast(float32, cast(int32, j) * int32(7)), extract(acc, 3))
      T[2] = lookup(i, 0.5, 1.5) + extract(lookup(ramp(j, 3, 4), 1.0, 2.0, 4.0, 8.0), 2)
      T[0] = extract(select(ramp(j, 2, 4) < splat(i, 4), acc, pack(A[0], A[1], A[2], 1.5e-10)), 1)
    }
  }
}
",
        );
    }

    #[test]
    fn mistakes_are_located() {
        let error = parse("kernel @f(A: in float32[4]) {\n  A[0] = B[1]\n}").err().map(|e| e.to_string());
        assert_eq!(error.as_deref(), Some("line 2: no buffer is called `B`"));
    }
}
