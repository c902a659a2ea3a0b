/* SPDX-License-Identifier: MIT */
/*
 * LLVM's C API as a table of function pointers, and what the files llvm_*.c share.
 *
 * libLLVM is opened at the first compile and never before, so that a process that finds all binaries in
 * the cache maps nothing of it.  L(Add) is LLVMAdd of the library that was opened.  Contexts are private to a
 * compilation: any number of threads may compile at once.
 */
#ifndef CPU_LLVM_API_H
#define CPU_LLVM_API_H
#include "cpu.h"
#ifndef CPU_BUILD_HASH
#define CPU_BUILD_HASH 1 /* changes with the plugin's sources where CMake sets it */
#endif
#ifdef CPU_HAVE_LLVM
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <tenon/linear.h>

/* clang-format off */
#define CPU_LLVM_FUNCTIONS(X)                                                                      \
    X(AddAttributeAtIndex) X(AddCase) X(AddFunction) X(AddGlobal) X(AddIncoming)                   \
    X(AppendBasicBlockInContext) X(BuildAShr) X(BuildAdd) X(BuildAlloca) X(BuildAnd)               \
    X(BuildBitCast) X(BuildBr) X(BuildCall2) X(BuildCondBr) X(BuildExtractElement) X(BuildFAdd)    \
    X(BuildFCmp) X(BuildFDiv) X(BuildFMul) X(BuildFNeg) X(BuildFPExt) X(BuildFPToSI)               \
    X(BuildFPToUI) X(BuildFPTrunc) X(BuildFSub) X(BuildGEP2) X(BuildICmp) X(BuildInsertElement)    \
    X(BuildLShr) X(BuildLoad2) X(BuildMul) X(BuildNot) X(BuildOr) X(BuildPhi) X(BuildRet)          \
    X(BuildRetVoid) X(BuildSDiv) X(BuildSExt) X(BuildSIToFP) X(BuildSRem) X(BuildSelect)           \
    X(BuildShl) X(BuildShuffleVector) X(BuildStore) X(BuildSub) X(BuildTrunc) X(BuildUDiv)         \
    X(BuildUIToFP) X(BuildURem) X(BuildXor) X(BuildZExt) X(ConstArray) X(ConstInt) X(ConstNull)    \
    X(ConstVector) X(ContextCreate) X(ContextDispose) X(ContextSetDiagnosticHandler)               \
    X(CopyStringRepOfTargetData) X(CountParams) X(CreateBuilderInContext)                          \
    X(CreatePassBuilderOptions) X(CreateStringAttribute) X(CreateEnumAttribute)                    \
    X(CreateTargetDataLayout) X(CreateTargetMachine) X(DisposeBuilder) X(DisposeErrorMessage)      \
    X(DisposeMemoryBuffer) X(DisposeMessage) X(DisposeModule) X(DisposePassBuilderOptions)         \
    X(DisposeTargetData) X(DisposeTargetMachine) X(DoubleTypeInContext) X(FloatTypeInContext)      \
    X(HalfTypeInContext)                                                                           \
    X(FunctionType) X(GetBufferSize) X(GetBufferStart) X(GetDiagInfoDescription)                   \
    X(GetBasicBlockParent) X(GetDiagInfoSeverity) X(GetEntryBasicBlock) X(GetEnumAttributeKindForName)                    \
    X(GetErrorMessage) X(GetHostCPUFeatures) X(GetHostCPUName) X(GetInsertBlock)                   \
    X(GetIntrinsicDeclaration) X(GetMDKindIDInContext) X(GetNamedFunction) X(GetParam)             \
    X(GetTargetFromTriple) X(GetTypeByName2) X(GlobalGetValueType) X(IntTypeInContext)             \
    X(IntrinsicGetType) X(LookupIntrinsicID) X(MDNodeInContext2) X(MDStringInContext2)             \
    X(MetadataAsValue) X(ModuleCreateWithNameInContext) X(PassBuilderOptionsSetVerifyEach)         \
    X(PointerTypeInContext) X(PositionBuilderAtEnd) X(PositionBuilderBefore) X(PrintModuleToString)\
    X(RunPasses) X(SetAlignment) X(SetDataLayout) X(SetGlobalConstant) X(SetInitializer)           \
    X(SetLinkage) X(SetMetadata) X(SetTarget) X(SetUnnamedAddress)                                 \
    X(TargetMachineEmitToMemoryBuffer) X(TypeOf) X(VectorType) X(VerifyModule)                     \
    X(VoidTypeInContext)
/* clang-format on */

typedef struct {
#define X(f) __typeof__(&LLVM##f) f;
    CPU_LLVM_FUNCTIONS(X)
#undef X
    int version; /* of the library that was opened: 15 .. */
} cpu__llvm_table;
extern cpu__llvm_table cpu__llvm;
#define L(f)        (cpu__llvm.f)
#define CPU_LLVM_FN ((LLVMAttributeIndex)LLVMAttributeFunctionIndex)

/* Opens the library, once a process; the error of the first try is that of every other. */
tnp_rc cpu__llvm_open(tnp_err *e);
/* Prepares "X86" or "AArch64" of the library.  [any] */
tnp_rc cpu__llvm_target(const char *name, tnp_err *e);

/* ---- llvm_check.c: linear code that the renderer may trust ---- */
enum cpu__lop {
#define X(name) LOP_##name,
    TNL_BASE_OPS(X)
#undef X
        LOP_COUNT
};
typedef struct {
    tnl_view v;
    uint8_t *op; /* cpu__lop of each row */
} cpu__linear;
/* Opens and checks a blob; on success out->op is to be given back. */
tnp_rc cpu__linear_check(const void *blob, size_t n, cpu__linear *out, tnp_err *e);
unsigned cpu__dtype_size(unsigned dt);
bool cpu__is_float(unsigned dt);
bool cpu__is_signed(unsigned dt);

/* ---- llvm_emit.c: a function in a module ---- */
typedef struct {
    LLVMContextRef c;
    LLVMModuleRef m;
    LLVMBuilderRef b;
    bool f16c, fma; /* the target converts half floats; has fused multiply-adds */
} cpu__unit;
tnp_rc cpu__llvm_emit(cpu__unit *u, const cpu__linear *l, tnp_err *e);
LLVMTypeRef cpu__llvm_type(const cpu__unit *u, unsigned dt, unsigned lanes);
/* A call of an intrinsic whose one overloaded type is that of its arguments. */
LLVMValueRef cpu__llvm_call(cpu__unit *u, const char *name, LLVMValueRef *args, unsigned n);

/* ---- llvm_math.c: expansions; x: float32 or integers of `lanes` lanes ---- */
LLVMValueRef cpu__llvm_exp2(cpu__unit *u, LLVMValueRef x, unsigned lanes);
LLVMValueRef cpu__llvm_log2(cpu__unit *u, LLVMValueRef x, unsigned lanes);
LLVMValueRef cpu__llvm_sin(cpu__unit *u, LLVMValueRef x, unsigned lanes);
LLVMValueRef cpu__llvm_from_half(cpu__unit *u, unsigned dt, LLVMValueRef x, unsigned lanes);
LLVMValueRef cpu__llvm_to_half(cpu__unit *u, unsigned dt, LLVMValueRef x, unsigned lanes);
#endif

/* ---- llvm_find.c and llvm_compile.c; without LLVM: never there, and an error ---- */
/* Path of the library that the first compile would open, false if there is none; opens nothing. */
bool cpu__llvm_path(char *out, size_t cap);
tnp_rc cpu__llvm_compile(const tnp_compile *c, tnp_blob *bin, tnp_blob *log, tnp_err *e);
extern const tnp_render_ops cpu__llvm_render;
#endif
