//! Errors of primitives.

use super::analysis::tree::MAX_DEPTH;
use super::arg::FuncIndex;
use crate::ir::{DType, StmtId, Symbol};
use std::fmt;

/// A refused instruction. It must be cheap, since a search discards thousands; the loop or block is printed in the
/// program only when the error is shown (see `schedule::render`).
#[derive(Clone, PartialEq, Debug)]
pub struct ScheduleError {
    /// The kind of error, with its facts.
    pub kind: ErrorKind,
    /// The loop or block that caused it.
    pub at: Option<(FuncIndex, StmtId)>,
    /// The method that was refused.
    pub primitive: &'static str,
}

impl ScheduleError {
    /// An error without a place; the schedule fills in the primitive.
    pub fn new(kind: ErrorKind) -> Self {
        ScheduleError { kind, at: None, primitive: "" }
    }

    /// The error at a loop or block.
    pub fn at(mut self, func: FuncIndex, stmt: impl Into<StmtId>) -> Self {
        self.at = Some((func, stmt.into()));
        self
    }
}

impl From<ErrorKind> for ScheduleError {
    fn from(kind: ErrorKind) -> Self {
        ScheduleError::new(kind)
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.primitive.is_empty() {
            write!(f, "{}", self.kind)
        } else {
            write!(f, "`{}`: {}", self.primitive, self.kind)
        }
    }
}

impl std::error::Error for ScheduleError {}

macro_rules! error_kinds {
    ($($(#[$doc:meta])* $variant:ident $({ $($field:ident : $ty:ty),* $(,)? })? => $class:literal, $message:literal, help $help:literal;)*) => {
        /// The kind of an error, with its facts. Each variant has the class of TVM's error for the same check.
        #[derive(Clone, PartialEq, Debug)]
        #[expect(missing_docs, reason = "the fields are the facts of the message below the variant's doc")]
        pub enum ErrorKind { $($(#[$doc])* $variant $({ $($field: $ty),* })?,)* }

        impl ErrorKind {
            /// The name of TVM's error class.
            pub fn class(&self) -> &'static str {
                match self { $(ErrorKind::$variant $({ $($field: _),* })? => $class,)* }
            }

            /// All kinds, each with its class and its help, unfilled.
            #[cfg(test)]
            const ALL: &[(&str, &str, &str)] = &[$((stringify!($variant), $class, $help),)*];

            /// A proposal for the user; may be empty.
            pub fn help(&self) -> String {
                match self { $(ErrorKind::$variant $({ $($field),* })? => {
                    $($(let _ = $field;)*)?
                    format!($help)
                })* }
            }
        }

        impl fmt::Display for ErrorKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(ErrorKind::$variant $({ $($field),* })? => {
                    $($(let _ = $field;)*)?
                    write!(f, $message)
                })* }
            }
        }
    };
}

error_kinds! {
    /// The stop flag of the schedule was raised: the instruction itself is not wrong.
    Stopped
        => "Stopped", "the schedule was stopped before this instruction", help "allow more time";
    /// The arguments do not fit the parameters.
    Argument { message: String }
        => "ValueError", "{message}", help "";
    /// No function of that name.
    UnknownFunction { name: Symbol, known: String }
        => "ValueError", "the module has no function `{name}`", help "its functions are {known}";
    /// The loop or block was consumed by an earlier instruction.
    DeadHandle { what: &'static str, by: String }
        => "ValueError", "the {what} no longer exists: {by}", help "use the handles which that instruction returned";
    /// The random variable is of another kind.
    WrongHandle { expected: &'static str, found: &'static str }
        => "ValueError", "expected a {expected}, found a {found}", help "pass a {expected}, such as `get_sblock` and `get_loops` give";
    /// No block of that name.
    BlockNotFound { name: Symbol, func: Symbol, near: String }
        => "BlockNotFoundError", "function `{func}` has no block `{name}`", help "{near}";
    /// Several blocks of that name.
    MultipleBlocksFound { name: Symbol, count: usize }
        => "MultipleBlocksFoundError", "{count} blocks are called `{name}`", help "fetch one through `get_child_blocks`, `get_producers` or `get_consumers`";
    /// The primitive is for blocks inside others.
    RootBlock
        => "RootBlockError", "the root block has no scope around it", help "choose a block inside it";
    /// A parameter must be a constant.
    SymbolicShape
        => "SymbolicShapeError", "the loop's bounds are not constant", help "make the extents concrete with `--bind`";
    /// Loops must not be annotated or bound.
    HasAnnotationOrThreadBinding
        => "HasAnnotationOrThreadBindingError", "the loop has annotations or is bound to a thread axis", help "split or fuse first, then annotate";
    /// Loops must start at zero.
    LoopNotStartWithZero
        => "LoopNotStartWithZeroError", "the loop does not start at 0", help "write the loop from 0, or do this before `loop_partition`";
    /// More than one factor to infer.
    NotSingleInferFactor
        => "NotSingleInferFactorError", "more than one factor is left to be inferred", help "leave at most one factor as `None`";
    /// A factor below one.
    NonPositiveFactor { factor: i64, position: usize }
        => "NonPositiveFactorError", "factor {position} is {factor}, expected a positive number", help "leave the factor as `None` to have it inferred";
    /// The factors do not cover the loop.
    WrongFactor { product: i64, extent: String }
        => "WrongFactorError", "factors cover {product} of the {extent} iterations", help "make the factors multiply to at least {extent}, or leave one as `None`";
    /// A bug of a primitive, which would leave an access to a removed buffer.
    UndeclaredBuffer { buffer: Symbol }
        => "InternalError", "buffer `{buffer}` would be used where nothing declares it", help "this is a mistake of tvmr, not of the schedule: leave the instruction out, and report it with the program and the trace";
    /// The number of iterations overflows the loop variable.
    ExtentOverflow { extent: String, dtype: DType }
        => "ExtentOverflowError", "an extent of {extent} does not fit `{dtype}`, the type that loops and indices have here", help "choose smaller numbers, or give the program extents of type `int64`";
    /// A statement between blocks whose order the primitive cannot preserve.
    StatementBetweenBlocks { statement: String }
        => "StatementBetweenBlocksError", "the function has a statement that the primitive may not rearrange: {statement}", help "put the statement into a block, or allocate in the root block";
    /// A loop with a step, which primitives do not support.
    LoopStep { statement: String }
        => "LoopStepError", "the function has a loop that does not count by 1: {statement}", help "`normalize_loop` lets a loop count from 0 by 1, if its step is a constant";
    /// A loop or binding of a type that primitives do not support.
    IndexType { what: String, found: DType, expected: &'static str }
        => "IndexTypeError", "{what} is `{found}`, expected {expected}", help "give loops, domains and bindings one type, and convert where values are used";
    /// A range without iterations.
    EmptyRange { what: String }
        => "EmptyRangeError", "{what} is empty: there is nothing to schedule", help "give it an extent of at least 1";
    /// A block that does not list its accesses.
    UnlistedAccess { what: String }
        => "UnlistedAccessError", "{what}; primitives rely on these lists", help "add the region, or leave the list out to have it inferred";
    /// A nest that could not be parsed again.
    NestTooDeep { depth: usize }
        => "NestTooDeepError", "the program would be nested {depth} levels deep, expected at most {MAX_DEPTH}", help "`fuse` loops first, or leave out loops of one iteration";
    /// The lengths cover the whole loop.
    WrongFactorSum { sum: i64, extent: i64 }
        => "WrongFactorError", "the parts take {sum} of the {extent} iterations and leave none", help "make the lengths sum to less than {extent}";
    /// Parts of a reduction would each start again.
    PartitionedReduction { block: Symbol }
        => "PartitionedReductionError", "the init of block `{block}` would run at the start of each part and discard the sums of the others", help "take the init out with `decompose_reduction` first, or `split` the loop";
    /// The loops are not nested directly.
    OuterNotInnerParent
        => "OuterNotInnerParent", "the loop is not directly inside the loop named before it", help "name loops from the outermost inwards, without gaps; `reorder` first if need be";
    /// Another statement is in the same list as the inner loop.
    NotOnlyChild
        => "NotOnlyChildError", "the loop is not the only statement inside the loop around it", help "move the other statement away with `compute_at` or `reverse_compute_at`, or fuse the loops outside it";
    /// An extent depends on another loop.
    DependentLoop
        => "DependentLoopError", "the loop's extent depends on another of the loops", help "leave that loop where it is, outside this one";
    /// A loop is named twice.
    LoopMultiAppearance
        => "LoopMultiAppearanceError", "the loop is named more than once", help "name each loop once";
    /// The nests have different iterations.
    MergeLoopsNotMatch { problem: &'static str }
        => "MergeLoopsNotMatchError", "the loops cannot be merged: {problem}", help "`split` or `fuse` the nests until they are alike, or use `reverse_compute_at`";
    /// Merging would make an iteration use a value that a later one computes.
    MergeReorders
        => "MergeReordersError", "merging moves the loop past something that it depends on, or that depends on it", help "merge neighbouring nests whose iterations depend on no later ones";
    /// Not a permutation of a block's iteration variables.
    InvalidReorderIndex { order: String, n: i64 }
        => "InvalidReorderIndex", "{order} is not a permutation of the block's {n} iteration variables", help "name each position from 0 on exactly once";
    /// The loops are not in one chain.
    LoopsNotAChain { problem: &'static str }
        => "LoopsNotAChainError", "the loops do not form a chain: {problem}", help "name loops around one block only, without branches between them; `compute_at` and `reverse_compute_at` move what stands between";
    /// Block bindings are not affine.
    NotAffineBinding
        => "NotAffineBindingError", "the block's bindings are not affine in the loops around it", help "schedule the block before the instruction that made its bindings so, or leave these loops";
    /// A kind of iteration variable that is not allowed.
    BlockIterType
        => "BlockPropertyError", "the block has an iteration variable that is neither spatial nor reduction", help "only blocks with spatial and reduction iteration variables can be reordered";
    /// A loop must be data-parallel for this.
    WrongBlockIterType { op: &'static str, loop_name: Symbol, block: Symbol, kind: &'static str }
        => "WrongBlockIterTypeError", "loop `{loop_name}` cannot be given to `{op}`: it drives a {kind} iteration variable of block `{block}`", help "choose a loop that only spatial iteration variables use, or `rfactor` the reduction";
    /// A subtree's blocks are neither complete nor reduction blocks.
    NotCompactDataFlow { block: Symbol }
        => "NotCompactDataFlowError", "block `{block}` below is neither a complete nor a reduction block of its scope", help "set loop kinds before `decompose_reduction`; an update in place is neither, so give it a buffer of its own to write";
    /// Neither complete nor reduction block.
    NotCompleteOrReductionBlock { block: Symbol, complete: &'static str, reduction: &'static str }
        => "NotCompleteOrReductionBlockError", "block `{block}` is neither a complete block ({complete}) nor a reduction block ({reduction})", help "do this before `decompose_reduction`, and to blocks that alone write their output";
    /// Not a complete block.
    IncompleteBlock { block: Symbol, why: &'static str }
        => "IncompleteBlockError", "block `{block}` is not a complete block: {why}", help "do this to a block that alone writes its output, over spatial iteration variables only";
    /// Not a reduction block.
    NotReductionBlock { block: Symbol, why: &'static str }
        => "NotReductionBlockError", "block `{block}` is not a reduction block: {why}", help "choose the block that reduces, before `decompose_reduction`";
    /// A reduction whose init never runs, or not first.
    LateInit { block: Symbol }
        => "NotReductionBlockError", "the init of block `{block}` does not run first: its reductions begin later than their domains", help "let the bindings of the reduction variables begin where their domains do";
    /// The scope is no stage pipeline.
    NotStagePipeline
        => "NotStagePipelineError", "a block of the scope reads what its producers do not fully write, or out of order", help "do this before blocks are split into parts or moved out of order";
    /// Block and loop have different scopes.
    NotInSameScope { problem: &'static str }
        => "NotInSameScopeError", "{problem}", help "choose a loop of the same block that is not around the moved block";
    /// Not all consumers or producers are under the loop.
    NotAllRequiredBlocksAreVisited { needed: &'static str, missing: Symbol }
        => "NotAllRequiredBlocksAreVisitedError", "{needed} `{missing}` is not under the loop", help "choose a loop around all of them";
    /// The block writes an output.
    OutputBlock { block: Symbol }
        => "OutputBlockError", "block `{block}` writes an output of its scope", help "choose another block, or `cache_write` this one and move the original";
    /// The block would move past a block that it depends on, or that depends on it.
    DependenceOrder { block: Symbol, other: Symbol }
        => "DependenceOrderError", "block `{block}` would move past block `{other}`, and one of them depends on the other", help "move the other block first, or choose a loop that holds both";
    /// The position is not allowed.
    InvalidIndex { index: i64, allowed: String }
        => "InternalError", "index {index} is not a possible position", help "possible positions are {allowed}";
    /// There is no valid position among the producers and consumers.
    InsertionPointNotFound { producer: usize, consumer: usize }
        => "InsertionPointNotFoundError", "no position is after all producers and before all consumers: under the loop, statement {producer} holds a producer and statement {consumer} a consumer", help "choose a loop further out, or move the consumer first";
    /// A block under a condition cannot be moved.
    Conditional { block: Symbol }
        => "ConditionalBlockError", "block `{block}` stands under an `if` or `let` and cannot be moved out of it", help "state the condition as `T.where`";
    /// An index that no rule solves.
    UnsolvedRegion { buffer: Symbol }
        => "ValueError", "cannot tell which instances of the block provide the required region of `{buffer}`", help "choose a loop further out, or a buffer accessed at affine indices";
    /// Instances that read nothing of the producers would be lost.
    LostInstances { block: Symbol }
        => "LostInstancesError", "instances of block `{block}` that read nothing the producers write would not run any more", help "choose a loop of a producer that writes all that the block reads";
    /// The move would add instances.
    NewInstances { block: Symbol }
        => "NewInstancesError", "the loops around output block `{block}` leave out instances that would run under the new loop", help "choose factors that divide the extents, so that no predicate is needed";
    /// The move would drop a predicate.
    LostPredicate { block: Symbol }
        => "LostPredicateError", "the `T.where` of output block `{block}` does not follow from the domains of its iteration variables, and would be lost", help "choose factors that divide the extents, so that no predicate is needed";
    /// A reduction that would add some values more than once.
    RepeatedReduction { block: Symbol }
        => "RepeatedReductionError", "reduction block `{block}` would add some values more than once", help "choose a loop outside those that the block does not use";
    /// A reduction whose steps would run at the same time.
    ParallelReduction { block: Symbol, loop_name: Symbol }
        => "ParallelReductionError", "the iterations of loop `{loop_name}` may run at the same time, and reduction block `{block}` would add to one element in several of them", help "move first, or make the reduction spatial with `rfactor`";
    /// A part of a tile is produced later.
    EarlyRead { block: Symbol, buffer: Symbol }
        => "EarlyReadError", "block `{block}` would read elements of `{buffer}` that only a later iteration of the loop writes", help "choose a loop further out";
    /// A loop whose iterations depend on each other.
    LoopCarried { op: &'static str, loop_name: Symbol, buffer: Symbol }
        => "LoopCarriedDependencyError", "cannot {op} loop `{loop_name}`: a block in it may read elements of `{buffer}` that another iteration writes", help "choose a loop whose iterations write all that they read";
    /// A reduction whose first step would come after others.
    ReductionOutOfOrder { block: Symbol, loop_name: Symbol }
        => "ReductionOutOfOrderError", "the order of loop `{loop_name}` among the reduction loops of block `{block}` decides where reductions begin", help "reorder before fusing, or `decompose_reduction` first";
    /// No write, or several.
    NotSingleWriteBlock { buffer: Symbol, count: usize }
        => "NotSingleWriteBlock", "buffer `{buffer}` is written by {count} blocks, expected one", help "choose a buffer with one writer, or do this before `decompose_reduction`";
    /// A buffer index out of range.
    BufferIndexOutOfRange { index: i64, count: usize, access: &'static str }
        => "BufferIndexOutOfRangeError", "buffer index {index} is out of range: the block {access} {count} buffers", help "count from 0, or name the buffer";
    /// A block with init where none may be.
    HasInitBlock { block: Symbol }
        => "HasInitBlock", "block `{block}` has an init", help "`decompose_reduction` takes it out";
    /// The body cannot be inlined.
    BodyAnalysis { why: &'static str }
        => "BodyAnalysisError", "the block cannot be inlined: {why}", help "leave the block; `compute_at` moves it near its readers instead";
    /// The consumer has several producers.
    NonSingleProducer { block: Symbol }
        => "NonSingleProducerError", "block `{block}` has not exactly one complete producer", help "inline the other producers first, or use `reverse_compute_at`";
    /// The producer has another consumer.
    OtherConsumer { block: Symbol }
        => "NonSingleConsumerError", "block `{block}` uses the buffer too, which would have no writer any more", help "inline that block as well, or use `reverse_compute_at`";
    /// Several buffers where one is expected.
    NotSingleReadWriteBuffer { access: &'static str, count: usize }
        => "NotSingleReadWriteBuffer", "the block {access} {count} buffers, expected one", help "move such a block with `compute_at` or `reverse_compute_at`, or split it in the program";
    /// The loop is not around the block.
    LoopPosition { loop_name: Symbol, block: Symbol }
        => "LoopPositionError", "loop `{loop_name}` is not around block `{block}`", help "take a loop from `get_loops` of the block";
    /// The loop is inside a reduction loop.
    LoopHeight { loop_name: Symbol, outer: Symbol }
        => "LoopHeightError", "loop `{loop_name}` is inside loop `{outer}`, which the reduction needs", help "decompose at `{outer}` or further out";
    /// The block stands alone in its scope.
    OnlyLeaf { block: Symbol }
        => "OnlyLeafError", "block `{block}` is the only one in its scope, which would be empty without it", help "leave the block: something must write the result";
    /// The buffer has an access that cannot be rewritten.
    OpaqueAccess { buffer: Symbol }
        => "OpaqueAccessError", "a region of buffer `{buffer}` has another name in a block (`T.match_buffer`)", help "do this before `tensorize` or whatever made the view";
    /// A subtree must hold one block.
    NonSingleChildBlock { what: &'static str, count: usize }
        => "NonSingleChildBlockError", "the {what} holds {count} blocks, expected one", help "choose a loop around one block; `blockize` takes a list of several blocks";
    /// A loop must be serial.
    NotSerialLoopKind { kind: &'static str }
        => "NotSerialLoopKindError", "the loop is {kind}, expected a serial one", help "set loop kinds afterwards";
    /// The axis of the new dimension of an rfactor.
    FactorAxisOutOfRange { axis: i64, rank: usize }
        => "FactorAxisOutOfRangeError", "`factor_axis` is {axis}, but the output has {rank} dimensions", help "choose an axis from 0 to {rank}, or count from the end with -1 and below";
    /// The loops around a reduction do not allow to factor it.
    LoopProperty { problem: &'static str }
        => "LoopPropertyError", "the reduction cannot be factored at this loop: {problem}", help "choose a loop that only the reduction uses, with the reduction innermost; `reorder` and `split` first if need be";
    /// The body of a reduction has an unsupported form.
    RFactorNotApplicable { why: &'static str }
        => "RFactorNotApplicableError", "the reduction cannot be factored: {why}", help "write the reduction as one store of `C = C op value` for each output";
    /// The reduction is not known to be associative and commutative.
    NoMatchedReducer
        => "NoMatchedReducerError", "init and update match no known reduction", help "known are sum, product, minimum, maximum, sums of two and the forms of argmax and argmin";
    /// Elements of the factored buffer would be read before they are written.
    RFactorUncovered
        => "RFactorUncoveredError", "the block's predicate leaves parts of the factored buffer unwritten", help "choose factors that divide the extents";
    /// The buffer is a parameter or a view.
    NonAllocatedBuffer { buffer: Symbol }
        => "NonAllocatedBufferError", "buffer `{buffer}` is a parameter or a view of another buffer, expected one that a block allocates", help "`cache_read` or `cache_write` gives a buffer that is allocated";
    /// No such storage scope.
    InvalidStorageScope { scope: Symbol }
        => "InvalidStorageScopeError", "unknown storage scope `{scope}`", help "scopes are `global`, `shared`, `warp`, `local` and those of accelerators";
    /// A dimension that the buffer does not have.
    StorageAlignAxisOutOfRange { axis: i64, rank: usize }
        => "StorageAlignAxisOutOfRangeError", "axis {axis} is out of range: the buffer has {rank} dimensions", help "choose an axis below {rank}, or count from the end with -1 and below";
    /// A buffer that cannot become a rolling window.
    RollingBuffer { buffer: Symbol, problem: &'static str }
        => "RollingBufferMatchError", "buffer `{buffer}` cannot roll: {problem}", help "split the consumer's loop and `compute_at` the block there first";
    /// A block whose order against others matters beyond reads after writes.
    RollingBufferDependency { buffer: Symbol }
        => "RollingBufferDependencyError", "the writer of buffer `{buffer}` and other blocks overwrite what they read or wrote", help "roll a buffer that one block writes and later ones only read";
    /// Producer and consumer of a rolling buffer share no loop.
    RollingBufferInsertion { buffer: Symbol }
        => "RollingBufferInsertionError", "the writer of buffer `{buffer}` and its readers are under no common loop", help "`compute_at` the writer first";
    /// An alignment below one.
    StorageAlignInvalidFactor { factor: i64 }
        => "StorageAlignInvalidFactorError", "the factor is {factor}, expected a positive number", help "give the alignment in elements, such as 16";
    /// An annotation of another form.
    StorageAlignInvalidAnnotation
        => "StorageAlignInvalidAnnotationError", "the block's annotation `buffer_dim_align` is not a list of lists of four integers", help "`unannotate` it, then align again";
    /// An unknown kind of access.
    BufType { found: Symbol }
        => "BufTypeError", "expected `read` or `write`, found `{found}`", help "pass `\"read\"` or `\"write\"`";
    /// A position among a block's regions that is out of range.
    InvalidAccessIndex { index: i64, count: usize }
        => "InvalidIndexError", "index {index} is out of range: the block has {count} such regions", help "count from 0 in the order of `T.reads` or `T.writes`";
    /// A cache of its output would leave the block without its input.
    CachedBufferIsRead { buffer: Symbol }
        => "CachedBufferIsReadError", "the block reads buffer `{buffer}`, which it also writes, in a way that a copy cannot serve", help "use `cache_inplace`, or cache before `decompose_reduction`";
    /// A block without indices to compute beforehand.
    TooFewIndices { block: Symbol, found: usize }
        => "TooFewIndicesError", "block `{block}` has {found} expressions that could be computed beforehand, expected 2 or more", help "lower `cse_thresh`";
    /// An index that cannot be computed outside its block.
    IndexNotCachable { block: Symbol, why: &'static str }
        => "IndexNotCachableError", "an expression of block `{block}` uses {why}", help "cache before `fuse` and `blockize`";
    /// A copy of a buffer would come too late for a reader, or too early for a writer.
    CopyOutOfOrder { buffer: Symbol, block: Symbol }
        => "CopyOutOfOrderError", "block `{block}` accesses buffer `{buffer}` inside the same loops", help "copy before `compute_at` and the like";
    /// A copy would write elements that the block does not write.
    UncoveredCopy { block: Symbol, buffer: Symbol }
        => "UncoveredCopyError", "block `{block}` may leave elements unwritten that the copy would write to buffer `{buffer}`, and iterations around it may write them", help "";
    /// A block that does not update a buffer in place.
    NotReadWrite { block: Symbol, buffer: Symbol }
        => "NotReadWriteError", "block `{block}` does not read and write the same part of buffer `{buffer}`", help "";
    /// A copy beyond the buffer.
    CopyOutOfBounds { buffer: Symbol }
        => "CopyOutOfBoundsError", "the copy may access elements outside buffer `{buffer}`", help "";
    /// A block inside the block.
    NotLeafBlock { block: Symbol }
        => "NotLeafBlockError", "block `{block}` holds other blocks", help "choose the innermost block, or do this before `blockize`";
    /// Accesses to a buffer that differ.
    InvalidBufferAccess { buffer: Symbol, how: &'static str }
        => "InvalidBufferAccessError", "the block accesses buffer `{buffer}` {how}, expected at the same indices everywhere", help "";
    /// The loops around a block branch.
    NotALoopNest { block: Symbol }
        => "InternalError", "the loops around block `{block}` are not a nest without branches", help "do this before other blocks are moved into these loops";
    /// Paddings that do not fit the block.
    InvalidPadding { padding: String, n: usize }
        => "InvalidPaddingError", "the padding is {padding}, expected {n} positive numbers", help "give one number for each iteration variable, 1 to leave it as it is";
    /// The block is no sum of products.
    NonEinsum { block: Symbol }
        => "NonEinsumError", "block `{block}` does not access each buffer once, at plain iteration variables", help "use it on a plain sum of products such as `C[i, j] += A[i, k] * B[k, j]`; `decompose_reduction` comes later";
    /// A padding that would change the result.
    UnsoundPadding { problem: &'static str }
        => "UnsoundPaddingError", "the padding would change the result: {problem}", help "choose paddings that divide the extents, or pad only spatial iteration variables";
    /// Bindings that do not divide into outer and inner loops.
    SubspaceNotDivisible { block: Symbol }
        => "SubspaceNotDivisibleError", "the bindings of block `{block}` do not divide into parts over the outer and the inner loops", help "split loops so that each is wholly outside or inside";
    /// Blocks that cannot be put into one block together.
    BlocksNotConsecutive { problem: &'static str }
        => "InternalError", "the blocks cannot become one: {problem}", help "name neighbouring blocks of one scope";
    /// A copy below a loop that cannot be made.
    CopyAt { buffer: Symbol, problem: &'static str }
        => "InternalError", "buffer `{buffer}` cannot be copied below the loop: {problem}", help "";
    /// The number of parameters of a function of indices.
    LambdaParams { found: usize, expected: usize }
        => "ValueError", "the function takes {found} indices, expected {expected}", help "give it {expected} parameters";
    /// The buffer is a view of another.
    BufferIsSubregion { buffer: Symbol }
        => "BufferIsSubregionError", "buffer `{buffer}` is a view of another buffer (`T.match_buffer`)", help "transform the buffer that it shows";
    /// A layout that leaves places without an element.
    LayoutPadding { buffer: Symbol }
        => "TransformationIntroducesPaddingError", "the new layout of buffer `{buffer}` has places without an element", help "give a `pad_value`";
    /// A value for padding of another type.
    LayoutPaddingType { found: String, expected: String }
        => "TransformationPaddingTypeError", "the value for the padding is of type `{found}`, the buffer of type `{expected}`", help "write it as `T.{expected}(…)`";
    /// A layout that may map two elements to the same position.
    NotInjective { buffer: Symbol }
        => "InternalError", "the index map is not known to keep all elements of buffer `{buffer}` apart", help "use a map that can be inverted, made of splits, fusions and exchanges of indices";
    /// The new iteration variables do not determine the old ones.
    NotBijectiveIndexMap { block: Symbol }
        => "NotBijectiveAffineIndexMapError", "the index map is not a one-to-one map of the iterations of block `{block}` made of splits and fusions", help "use splits by factors that divide the extents, such as `lambda i, j: (i // 4, j, i % 4)`";
    /// The number of a block's iteration variables is not that of the map's parameters.
    IndexMapNotApplicable { found: usize, expected: usize }
        => "IndexMapNotApplicableToBlockIterError", "the function takes {found} indices, but the block has {expected} iteration variables", help "give it {expected} parameters";
    /// An iteration variable composed of variables of different kinds.
    OpaqueNewIter { result: usize }
        => "OpaqueNewIterTypeError", "result {result} of the index map mixes iteration variables of different kinds, or uses none", help "let each result use spatial iteration variables only, or reduction ones only";
    /// Bindings that are not loop variables.
    NotTrivialBinding { block: Symbol }
        => "NotTrivialBindingError", "the iteration variables of block `{block}` are not bound to its loops, one each and in order", help "transform before `split`, `fuse` and `reorder`";
    /// The iteration variables in a buffer's indices and in the new ones differ.
    ReindexCacheMismatch { iter: Symbol }
        => "ReindexCacheReadWriteNotMatchError", "iteration variable `{iter}` is used by only one of the buffer's indices and the index map", help "";
    /// A layout that may store two elements in the same position.
    ReindexCacheOverlap
        => "ReindexCacheOverlapError", "the index map sends different elements to one place, or to a negative index", help "use a map that can be inverted";
    /// A region where an element is expected.
    NotSinglePointAccess { buffer: Symbol, access: &'static str }
        => "NotSinglePointAccess", "the block {access} more than one element of buffer `{buffer}`", help "";
    /// A predicate that a copy would lose.
    GuardedBlock { block: Symbol }
        => "GuardedBlockError", "block `{block}` has a predicate or loop extents over loops that the new nest does not have", help "choose factors that divide the extents, or use `cache_read` and `cache_write`";
    /// A consumer that does not become part of the reduction.
    EpilogueNotFusible { why: &'static str }
        => "BodyAnalysisError", "the block cannot become part of the reduction: {why}", help "leave the block; `reverse_compute_at` moves it into the loops of the reduction instead";
    /// The block pads nothing.
    PaddingPatternMatch { why: &'static str }
        => "PaddingPatternMatchError", "the block does not pad a buffer: {why}", help "use it on a block that stores `T.if_then_else(inside, value, constant)`";
    /// A stated region that does not hold what the block accesses.
    RegionTooSmall { buffer: Symbol }
        => "RegionTooSmallError", "the region does not hold all that the block accesses of buffer `{buffer}`", help "state a region that holds every access of the block";
    /// Reads of elements that no block has written.
    NotRegionCover { block: Symbol }
        => "NotRegionCoverError", "block `{block}` reads elements that no block in its scope has written before", help "move a producer that writes all of them before it";
    /// No intrinsic of that name.
    UnknownIntrin { name: Symbol, near: String, known: String }
        => "ValueError", "there is no tensor intrinsic `{name}`", help "{near}registered are {known}; `--intrin FILE` registers more";
    /// The computation to be tensorized does not match the intrinsic.
    TensorizeMismatch { intrin: Symbol, described: Symbol, why: &'static str }
        => "TensorizeError", "the block does not match the description of intrinsic `{intrin}`: {why}", help "it describes `{described}`: `split` loops to these extents, take the init out with `decompose_reduction`, and name the outermost of the loops";
    /// A decision that is out of range.
    WrongDecision { decision: i64, n: usize }
        => "ValueError", "decision {decision} is not among the {n} candidates", help "leave the decision out to draw one";
    /// An annotation that does not exist.
    UnknownAnnotation { key: Symbol }
        => "IndexError", "there is no annotation `{key}`", help "annotations are printed in `annotations=` of a loop, and `T.block_attr` of a block";
    /// A primitive that this version does not have.
    NotSupported { what: String }
        => "NotSupportedError", "{what} is not supported", help "";
}

#[cfg(test)]
mod tests;
